// Which elements can be acted on.

const WIDGETS = words('button checkbox color combobox date datetime file link listbox menuitem menuitemcheckbox menuitemradio '
  + 'month option radio scrollbar searchbox slider spinbutton switch tab textbox treeitem week');
const CONTAINERS = words('alertdialog application article banner complementary contentinfo dialog document feed figure form grid group '
  + 'list log main menu menubar navigation none radiogroup region search table tablist tabpanel toolbar tree treegrid');
// jQuery UI uses only class names where other libraries use roles.
const LIBRARY_DRAGGABLE = '.ui-draggable, .ui-sortable-handle';
const LIBRARY_DROPZONE = '.ui-droppable';

/**
 * Why an element can be acted on: `widget` by its role, `text` as editable content, `drag`, `drop`, `strong` as the
 * page shows it, `weak` if only a listener tells, which may be there for what is inside. Empty if nothing tells.
 */
function evidenceOf(element, tag, role, cursor, cursorAround, inert) {
  if (inert || tag === 'body' || tag === 'html') return '';
  if (tag === 'canvas' || ((tag === 'video' || tag === 'audio') && hasAttribute(element, 'controls'))) return 'widget';
  if (WIDGETS.has(role) && !(role === 'listbox' && tag !== 'select')) return 'widget';
  if (role === 'time' && tag === 'input') return 'widget';
  if (isEditingHost(element)) return 'text';
  const draggable = attribute(element, 'draggable') === 'true' || matches(element, LIBRARY_DRAGGABLE);
  if (draggable || ((cursor === 'move' || cursor === 'grab' || cursor.endsWith('-resize')) && cursorAround !== cursor)) return 'drag';
  if (HANDLERS.some((handler) => typeof element[handler] === 'function')) return 'strong';
  if (cursor === 'pointer' && cursorAround !== 'pointer') return 'strong';
  const tabindex = attribute(element, 'tabindex');
  if (tabindex !== null && Number(tabindex) >= 0 && !CONTAINERS.has(role)) return 'strong';
  if (tag === 'label' && hidesControl(element)) return 'strong';
  if (listensTo(element, PRESS_EVENTS)) return 'weak';
  if (listensTo(element, DROP_EVENTS) || matches(element, LIBRARY_DROPZONE)) return 'drop';
  return '';
}

function isEditingHost(element) {
  const editable = attribute(element, 'contenteditable');
  return editable !== null && editable.toLowerCase() !== 'false' && attempt(() => isEditable(element), false);
}

/** Whether the label stands for a control that is not shown itself. */
function hidesControl(label) {
  const control = attempt(() => label.control, null);
  return isElement(control) && control.type !== 'hidden' && !isRendered(control, { visibilityProperty: true });
}

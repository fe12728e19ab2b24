// Names of colours and shapes.

/** Where each hue ends, in degrees. */
const HUES = [[15, 'red'], [45, 'orange'], [70, 'yellow'], [165, 'green'], [195, 'cyan'], [255, 'blue'], [285, 'purple'],
  [330, 'magenta'], [360, 'red']];
const NO_COLORS = words('inherit initial unset revert currentcolor transparent none auto');

/** A colour in words: the author's own word where there is one. */
function colorWord(computed, written) {
  const word = (written ?? '').toLowerCase();
  if (/^[a-z]+$/.test(word) && !NO_COLORS.has(word)) return word;
  const numbers = /^rgba?\(([^)]*)\)/.exec(computed);
  if (numbers === null) return '';
  const [red, green, blue, alpha = 1] = numbers[1].split(/[\s,/]+/).map(Number);
  if (alpha === 0) return '';
  const most = Math.max(red, green, blue) / 255;
  const least = Math.min(red, green, blue) / 255;
  const light = (most + least) / 2;
  const range = most - least;
  if (light < 0.08) return 'black';
  if (light > 0.95) return 'white';
  if (range / (1 - Math.abs(2 * light - 1)) < 0.12) return light < 0.35 ? 'dark grey' : light > 0.75 ? 'light grey' : 'grey';
  const hue = HUES.find(([end]) => hueOf(red, green, blue) <= end)[1];
  return light < 0.3 ? `dark ${hue}` : light > 0.7 ? `light ${hue}` : hue;
}

/** Degrees from 0 to 360. */
function hueOf(red, green, blue) {
  const most = Math.max(red, green, blue);
  const range = most - Math.min(red, green, blue);
  if (most === red) return (((green - blue) / range + 6) % 6) * 60;
  return most === green ? ((blue - red) / range + 2) * 60 : ((red - green) / range + 4) * 60;
}

const SHAPES = { circle: 'circle', ellipse: 'ellipse', rect: 'rectangle', line: 'line', polyline: 'line', polygon: 'polygon',
  path: 'path', text: 'text', image: 'image', use: 'symbol', g: 'group' };

function shapeWord(element, tag) {
  if (tag === 'polygon' && attempt(() => element.points.numberOfItems, 0) === 3) return 'triangle';
  return SHAPES[tag];
}

const fillOf = (element, style) => {
  const fill = colorWord(style.fill, element.style?.fill || attribute(element, 'fill'));
  return fill || colorWord(style.stroke, element.style?.stroke || attribute(element, 'stroke'));
};

const backgroundOf = (element, style) => colorWord(style.backgroundColor, element.style?.backgroundColor || element.style?.background);

// State that all registrations of the extension in a process share.
//
// The client registers an extension more than once: for its daemon, and for the agents that it runs. Session hooks go to
// one registration and requests to another, and the module may be loaded for each.

import { Epochs } from "./epochs.ts";
import { newGatewayState, type GatewayState } from "./gateway.ts";
import { Runs } from "./runs.ts";

type Shared = { runs: Runs; epochs: Epochs; gateway: GatewayState };

const KEY = Symbol.for("clawrl.openclaw-extension/0.1");

export function shared(): Shared {
  const place = globalThis as { [KEY]?: Shared };
  place[KEY] ??= { runs: new Runs(), epochs: new Epochs(), gateway: newGatewayState() };
  return place[KEY];
}

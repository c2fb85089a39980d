// The page's scripts: Gradio's components ask for ``mount``, the buttons' events for form, board and ``clickOn``.
import { mountHow } from "./about.js";
import { cssColour, h } from "./base.js";
import { mountBlind } from "./blind.js";
import { board, mountBoard } from "./board.js";
import { counted } from "./charts.js";
import { count, tableRows } from "./count.js";
import { bufferWait, deck } from "./deck.js";
import { mountEarlier } from "./earlier.js";
import { mountExport } from "./export.js";
import { mountFigures } from "./figures.js";
import { form, mountForm } from "./form.js";
import { clickOn } from "./page.js";
import { watchConnection } from "./status.js";
import { mountTour } from "./tour.js";

export { board, bufferWait, clickOn, count, counted, cssColour, deck, form, tableRows };

watchConnection();

const MOUNTS = {
  blind: mountBlind,
  board: mountBoard,
  earlier: mountEarlier,
  export: mountExport,
  figures: mountFigures,
  form: mountForm,
  how: mountHow,
  tour: mountTour,
};

// Fill a component: its value is one message after the other from the server.
export const mount = (name, element, props, watch, trigger, server, upload) => {
  const root = h("div");
  const place = () => {
    // Gradio may draw its template again; ours goes back in
    const slot = element.querySelector(`[data-mount="${name}"]`) || element;
    if (root.parentNode !== slot) slot.replaceChildren(root);
  };
  place();
  const update = MOUNTS[name](root, trigger, server, upload);
  const receive = () => {
    if (props.value && update) update(JSON.parse(props.value));
  };
  watch("value", () => {
    place();
    receive();
  });
  receive();
};

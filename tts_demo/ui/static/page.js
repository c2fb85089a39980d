import { deck } from "./deck.js";
import { blindKey } from "./blind.js";
import { form } from "./form.js";

export const clickOn = (id) => {
  const e = document.getElementById(id),
    target = e && (e.matches("button,a") ? e : e.querySelector("a,button"));
  if (target) target.click();
};
const copyLink = () => {
  const url = form.address();
  history.replaceState(null, "", url);
  const done = (word) => {
    const b = document.getElementById("link");
    b.textContent = word;
    setTimeout(() => {
      b.textContent = "Copy link";
    }, 1600);
  };
  if (navigator.clipboard && window.isSecureContext)
    navigator.clipboard.writeText(url).then(
      () => done("Copied"),
      () => done("In the address"),
    );
  else done("In the address");
};

const scrollToBoard = () => {
  if (window.innerWidth <= 900) document.getElementById("board").scrollIntoView({ behavior: "smooth" });
}; // where the form stands above the lanes

document.addEventListener(
  "click",
  (e) => {
    const pressed = e.target.closest ? e.target.closest("button") : null;
    if (!pressed || pressed.disabled) return;
    if (pressed.id === "run") {
      deck.arm();
      scrollToBoard();
    } else if (pressed.id === "stop") deck.halt();
    else if (pressed.id === "link") copyLink();
  },
  true,
);

// Speak and Stop take turns: the focus goes to the one that can be pressed. The browser may take it from a disabled
// button before it is told here, and either may change first.
const turns = { run: "stop", stop: "run" };
let focused = "";
document.addEventListener("focusin", (e) => (focused = e.target.id));
new MutationObserver(() => {
  const [from, to] = [focused, turns[focused]].map((id) => id && document.getElementById(id));
  const lost = [from, document.body].includes(document.activeElement);
  if (from && to && lost && from.disabled && !to.disabled) to.focus({ preventScroll: true });
}).observe(document, { subtree: true, attributeFilter: ["disabled"] });

const own = (e) =>
  e.target.closest &&
  e.target.closest(
    "input, textarea, select, [contenteditable], [role=listbox], [role=slider], [role=tab], [role=radiogroup]",
  );
document.addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
    e.preventDefault();
    clickOn("run");
    return;
  }
  if (e.key === "Escape") {
    const b = document.getElementById("stop");
    if (b && !b.disabled) b.click();
    else deck.pause();
    return;
  }
  if (e.ctrlKey || e.metaKey || e.altKey || own(e)) return; // a focused control keeps its own keys
  if (blindKey(e.key.toLowerCase())) {
    e.preventDefault();
    return;
  }
  if (e.key === " " && e.target.closest && e.target.closest("button, a, summary")) return;
  const nth = Number(e.key),
    lane = nth >= 1 && nth <= 6 ? deck.order[nth - 1] : null;
  const acts = {
    " ": () => deck.toggle(),
    x: () => deck.swap(),
    ArrowLeft: () => deck.nudge(-1),
    ArrowRight: () => deck.nudge(1),
  };
  const act = lane
    ? () => (deck.lane && deck.lane !== lane && deck.playing ? deck.swap(lane) : deck.seek(lane, 0))
    : acts[e.key] || acts[e.key.toLowerCase()];
  if (act && !(e.key.startsWith("Arrow") && e.target.closest && e.target.closest(".scroller, .scroll"))) {
    e.preventDefault();
    act();
  }
});

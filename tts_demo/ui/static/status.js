// The one line that says how things stand. The server writes it too; nothing here goes over a run that is under way.
const line = () => document.querySelector("#status .status");
export const say = (words, kind) => {
  const here = line();
  if (!here || here.classList.contains("busy")) return;
  here.className = `status ${kind}`;
  here.querySelector("span").textContent = words;
};
// What was wrong has been changed: its sentence goes.
export const calm = () => {
  const here = line();
  if (here && here.classList.contains("error")) say("Changed. Press Speak.", "idle");
};

const EVERY = 20_000; // ms between two looks at the server
export const watchConnection = () => {
  let lost = false;
  const look = async () => {
    if (document.hidden) return;
    const there = await fetch("health", { cache: "no-store" }).then(
      () => true,
      () => false,
    );
    if (there !== lost) return;
    lost = !there;
    const here = line();
    if (lost && here) here.classList.remove("busy");
    say(
      lost
        ? "The connection to the server is lost: what stands here can still be heard and saved."
        : "The connection is back: reload the page, then press Speak.",
      lost ? "error" : "idle",
    );
  };
  window.addEventListener("offline", look);
  window.addEventListener("online", look);
  setInterval(look, EVERY);
};

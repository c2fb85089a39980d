// Saving what is on the board: maps and charts as pictures with their conditions in them, and the comparison as a page.
import { button, cssColour, download, s } from "./base.js";
import { board } from "./board.js";
import { comparisonPage } from "./comparison.js";
import { count } from "./count.js";
import { madeWords } from "./headline.js";

const under = (lane) => [
  `${lane.title}${lane.dials ? `, ${lane.dials}` : ""}`,
  madeWords(lane).join(" · "),
  count.conditions(lane),
];
const bare = (lane) => {
  // the map as it stands on the board: labels and picture side by side, the scale of weights beneath
  const view = board.view(lane.id);
  if (!view) return null;
  const all = document.createElement("canvas"),
    g = all.getContext("2d"),
    scale = window.devicePixelRatio || 1,
    bar = document.querySelector("#board .scale i");
  all.width = view.gutter.width + view.canvas.width;
  all.height = view.canvas.height + (lane.attention ? 24 * scale : 0);
  g.fillStyle = cssColour("--card");
  g.fillRect(0, 0, all.width, all.height);
  g.drawImage(view.gutter, 0, 0);
  g.drawImage(view.canvas, view.gutter.width, 0);
  if (lane.attention) {
    const y = view.canvas.height / scale + 17,
      ramp = g.createLinearGradient(78, 0, 148, 0),
      colours = getComputedStyle(bar).backgroundImage.match(/rgb\([^)]*\)/g);
    colours.forEach((c, i) => ramp.addColorStop(i / (colours.length - 1), c));
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.fillStyle = ramp;
    g.fillRect(78, y - 9, 70, 9);
    g.fillStyle = cssColour("--quiet");
    g.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
    g.textAlign = "right";
    g.fillText("weight 0", 71, y);
    g.textAlign = "left";
    g.fillText(bar.nextSibling.textContent, 155, y);
  }
  return {
    canvas: all,
    scale,
    gutter: view.gutter.width / all.width,
    width: all.width / scale,
    height: all.height / scale,
  };
};
const heads = (lane) => {
  // whose attention a map shows; one that the board never asked for anew is of the clearest heads
  const chosen = [...document.querySelectorAll("#board .map-bar select:not([hidden])")].map(
    (e) => e.selectedOptions[0].text,
  );
  return lane.attention
    ? [`Attention map: ${(lane.attention.view ? chosen.join(", ") : "Heads that follow the text").toLowerCase()}`]
    : [];
};
const long = (text, size) => {
  const g = document.createElement("canvas").getContext("2d");
  g.font = `${size}px sans-serif`;
  return g.measureText(text).width;
};
// A picture that can leave the page: lines of text above and beneath what is drawn, on this theme's card.
const sheet = (width, height, above, body, beneath) => {
  const line = (size, y, text, ink) => s("text", { x: 8, y, "font-size": size, fill: cssColour(ink) }, text);
  const top = 14 + 18 * above.length,
    wide = Math.ceil(Math.max(width, ...above.map((t) => long(t, 14) + 20), ...beneath.map((t) => long(t, 11) + 20))),
    tall = top + height + 18 * beneath.length + 12;
  body.setAttribute("transform", `translate(0 ${top})`);
  return s(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${wide} ${tall}`,
      width: wide,
      height: tall,
      "font-family": "sans-serif",
    },
    s("rect", { width: wide, height: tall, fill: cssColour("--card") }),
    ...above.map((t, i) => line(i ? 12 : 14, 20 + 18 * i, t, i ? "--quiet" : "--ink")),
    body,
    ...beneath.map((t, i) => line(11, top + height + 18 * (i + 1), t, "--quiet")),
  );
};
const svg = (name, drawn) => {
  if (drawn)
    download(`${name}.svg`, new Blob([new XMLSerializer().serializeToString(drawn)], { type: "image/svg+xml" }));
};
const png = async (name, drawn) => {
  // the same at twice its size
  if (!drawn) return;
  const image = new Image(),
    c = document.createElement("canvas"),
    { width, height } = drawn.viewBox.baseVal;
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(drawn))}`;
  await image.decode();
  c.width = 2 * width;
  c.height = 2 * height;
  c.getContext("2d").drawImage(image, 0, 0, c.width, c.height);
  c.toBlob((blob) => download(`${name}.png`, blob));
};
const map = (lane) => {
  const m = bare(lane),
    [title, made, conditions] = under(lane);
  return (
    m &&
    sheet(
      m.width,
      m.height,
      [title, made],
      s("g", {}, s("image", { href: m.canvas.toDataURL(), width: m.width, height: m.height })),
      [...heads(lane), conditions],
    )
  );
};
export const mountExport = (root) => {
  root.className = "row exports";
  const pair = (words, name, draw) => [
    button(`${words} (PNG)`, { class: "small" }, () => png(name, draw())),
    button("SVG", { class: "small", "aria-label": `${words} as SVG` }, () => svg(name, draw())),
  ];
  const draw = () => {
    const lanes = board.lanes().filter(count.done);
    root.replaceChildren(
      ...(lanes.length
        ? [
            button("Save as one page (HTML)", { class: "small" }, () =>
              download(
                "comparison.html",
                new Blob(
                  [comparisonPage(lanes.map((l) => ({ lane: l, under: under(l), map: bare(l), heads: heads(l) })))],
                  { type: "text/html" },
                ),
              ),
            ),
            ...lanes
              .filter((l) => l.attention)
              .flatMap((l) => pair(`Map of ${l.title}`, `${l.method}-map`, () => map(l))),
          ]
        : []),
    );
  };
  board.on((live) => live || draw());
  draw();
};

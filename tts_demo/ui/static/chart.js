// One chart by plotly.js, in the page's colours, its words and legend in lines that fit its width. Hover, zoom and PNG
// export are plotly's.
import { cssColour, h, onTheme } from "./base.js";

const loading = {}; // address -> promise of plotly.js
const plotly = (address) => {
  loading[address] =
    loading[address] ||
    new Promise((done, fail) => {
      const script = h("script", { src: new URL(address, document.baseURI).href });
      script.onload = () => done(window.Plotly);
      script.onerror = () => fail(new Error("The charts' script could not be loaded: reload the page."));
      document.head.append(script);
    });
  return loading[address];
};
const pen = document.createElement("canvas").getContext("2d");
export const wide = (text, px) => {
  pen.font = `${px}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
};
// A text in lines that are no wider than ``most`` pixels.
export const wrapped = (text, px, most) =>
  text
    .split(" ")
    .reduce(
      ([line, ...rest], word) =>
        line && wide(`${line} ${word}`, px) > most ? [word, line, ...rest] : [line ? `${line} ${word}` : word, ...rest],
      [""],
    )
    .reverse();
const TITLE = 14,
  SUBTITLE = 12,
  BUTTONS = 30, // pixels above the title of a narrow chart, where plotly's buttons stand
  LABEL = 10, // below the subtitle, for half a label at the end of the highest curve
  ROW = 18, // of a line of a legend
  KEY = 60; // beside a legend's words
// The legend below everything else, names in lines that fit ``room`` pixels, the picture as high as it needs: plotly
// cuts long names off and lays the legend over the axis title.
const legended = ({ traces, layout }, room) => {
  if (!layout.showlegend) return { traces, layout };
  const named = traces.map((t) => ({ ...t, name: wrapped(t.name, SUBTITLE, room - KEY).join("<br>") })),
    rows = named.flatMap((t) => t.name.split("<br>")).length * ROW + 10,
    legend = { orientation: "v", yref: "container", yanchor: "bottom", y: 0, x: 0 },
    margin = { ...layout.margin, b: layout.margin.b + rows };
  return { traces: named, layout: { ...layout, margin, legend, height: layout.height + rows } };
};
// Title, subtitle and the axis title below in lines that fit ``room`` pixels, the picture higher by what they need.
const fitted = (layout, room) => {
  const { title } = layout,
    narrow = room < 500,
    head = wrapped(title.text, TITLE, room - 8),
    under = wrapped(title.subtitle.text, SUBTITLE, room - 8);
  const more = (narrow ? BUTTONS : 0) + ((layout.annotations || []).length ? LABEL : 0),
    extra = (head.length - 1) * 1.3 * TITLE + (under.length - 1) * 1.3 * SUBTITLE + more,
    margin = { ...layout.margin, t: layout.margin.t + extra };
  if (narrow) margin.r = Math.min(margin.r, 64);
  const axis = wrapped(layout.xaxis.title.text, SUBTITLE, room - margin.l - margin.r),
    below = (axis.length - 1) * 1.3 * SUBTITLE;
  margin.b += below;
  const top = { yref: "container", yanchor: "top", y: 1, pad: { t: 12 + (narrow ? BUTTONS : 0) } };
  return {
    ...layout,
    margin,
    height: layout.height + extra + below,
    xaxis: { ...layout.xaxis, title: { ...layout.xaxis.title, text: axis.join("<br>") } },
    title: {
      ...title,
      ...top,
      text: head.join("<br>"),
      subtitle: { text: under.join("<br>"), font: { size: SUBTITLE } },
    },
  };
};

const themed = (layout) => {
  const ink = cssColour("--ink"),
    line = cssColour("--line"),
    axis = (given) => ({ gridcolor: line, linecolor: line, zerolinecolor: line, ...given });
  return {
    ...layout,
    xaxis: axis(layout.xaxis),
    yaxis: axis(layout.yaxis),
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: cssColour("--quiet") },
    title: { ...layout.title, font: { ...(layout.title || {}).font, color: ink } },
    paper_bgcolor: cssColour("--card"),
    plot_bgcolor: cssColour("--card"),
    hoverlabel: { bgcolor: cssColour("--card"), bordercolor: line, font: { color: ink } },
  };
};

const REST = 2500; // ms after a page has come before charts out of sight are drawn
// Calls ``f`` once the browser has nothing else to do: who saves or prints the whole page has not scrolled through it.
const idle = (f) => setTimeout(() => (window.requestIdleCallback ? requestIdleCallback(f) : f()), REST);

// One chart in ``root``: given once it is in sight, or the browser idle. said: what it shows in words, for who cannot
// see it.
export const chart = (root, address, name) => {
  const place = h("div", { class: "plot" }),
    said = h("p", { class: "only-read" }),
    box = h("figure", { class: "chart", "aria-label": name }, place, said);
  root.append(box);
  let wanted = null,
    seen = false;
  const draw = async () => {
    const width = place.clientWidth; // in a tab that is not open there is no room yet
    if (!seen || !wanted || !width) return;
    const { traces, layout } = legended(wanted, width);
    try {
      const drawn = await plotly(address);
      await drawn.react(
        place,
        traces,
        { ...themed(fitted(layout, width)), width },
        {
          responsive: true,
          displaylogo: false,
          modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
          toImageButtonOptions: { format: "png", scale: 2, filename: name.toLowerCase().replaceAll(" ", "-") },
        },
      );
    } catch (error) {
      place.textContent = error.message;
    }
  };
  const reveal = () => {
    seen = true;
    draw();
  };
  const watch = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && reveal(), {
    rootMargin: "300px",
  });
  watch.observe(box);
  const later = idle(reveal);
  window.addEventListener("beforeprint", reveal);
  const off = onTheme(draw);
  let drawn = 0;
  const sized = new ResizeObserver(() => {
    // by itself plotly follows the window alone, and breaks no title anew
    if (Math.abs(place.clientWidth - drawn) < 2) return;
    drawn = place.clientWidth;
    draw();
  });
  sized.observe(box);
  return {
    box,
    show(traces, layout, words) {
      wanted = { traces, layout };
      said.textContent = words;
      box.hidden = !traces.length;
      draw();
    },
    close() {
      clearTimeout(later);
      window.removeEventListener("beforeprint", reveal);
      watch.disconnect();
      sized.disconnect();
      off();
      box.remove();
    },
  };
};

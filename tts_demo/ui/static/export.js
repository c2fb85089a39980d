// Saving what is on the board: maps as pictures with their conditions in them, and the whole comparison as one page that plays without a server.
(() => {
  const { h, s } = TTSD;
  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
  const under = (lane) => [`${lane.title}${lane.dials ? `, ${lane.dials}` : ""}`, TTSD.madeWords(lane).join(" · "), lane.conditions.join(" · ")];
  const bare = (lane) => {       // the map as it stands on the board: labels and picture side by side
    const view = TTSD.board.view(lane.id);
    if (!view) return null;
    const all = document.createElement("canvas"), g = all.getContext("2d"), scale = window.devicePixelRatio || 1;
    all.width = view.gutter.width + view.canvas.width; all.height = view.canvas.height;
    g.fillStyle = TTSD.colour("--card"); g.fillRect(0, 0, all.width, all.height);
    g.drawImage(view.gutter, 0, 0); g.drawImage(view.canvas, view.gutter.width, 0);
    return { canvas: all, scale, gutter: view.gutter.width / all.width, width: all.width / scale, height: all.height / scale };
  };
  const picture = (lane) => {    // with what made it above and its conditions beneath
    const map = bare(lane);
    if (!map) return null;
    const c = document.createElement("canvas"), lines = under(lane), wide = Math.max(map.width, 640), g = TTSD.canvas(c, wide, map.height + 74);
    g.fillStyle = TTSD.colour("--card"); g.fillRect(0, 0, wide, map.height + 74);
    g.drawImage(map.canvas, 0, 46, map.width, map.height);
    const font = getComputedStyle(document.body).fontFamily;
    [[`650 14px ${font}`, "--ink", 18], [`12px ${font}`, "--quiet", 36], [`11px ${font}`, "--quiet", map.height + 64]].forEach(([face, ink, y], i) => { g.font = face; g.fillStyle = TTSD.colour(ink); g.fillText(lines[i], 8, y, wide - 16); });
    return { canvas: c, width: wide, height: map.height + 74, map, lines };
  };
  const png = (lane) => { const p = picture(lane); if (p) p.canvas.toBlob((blob) => TTSD.save(`${lane.method}-map.png`, blob)); };
  const svg = (lane) => {        // text as text, so that it can be set in another size; the map itself is a picture in it
    const p = picture(lane);
    if (!p) return;
    const root = s("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${p.width} ${p.height}`, width: p.width, height: p.height, "font-family": "sans-serif" },
      s("rect", { width: p.width, height: p.height, fill: TTSD.colour("--card") }), s("image", { href: p.map.canvas.toDataURL(), x: 0, y: 46, width: p.map.width, height: p.map.height }),
      ...[[14, 18, "--ink"], [12, 36, "--quiet"], [11, p.map.height + 64, "--quiet"]].map(([size, y, ink], i) => s("text", { x: 8, y, "font-size": size, fill: TTSD.colour(ink) }, p.lines[i])));
    TTSD.save(`${lane.method}-map.svg`, new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" }));
  };
  const charts = () => {         // as drawn, with the colours of this theme and the conditions of the first lane
    const drawn = [...document.querySelectorAll("#figures .charts .chart")], first = TTSD.board.lanes().find(TTSD.count.done);
    if (!first) return;
    const root = s("svg", { xmlns: "http://www.w3.org/2000/svg", "font-family": "sans-serif" });
    let y = 0, wide = 0;
    for (const box of drawn) {
      const inner = box.querySelector("svg"), copy = inner.cloneNode(true), w = inner.clientWidth;
      [...inner.querySelectorAll("*")].forEach((e, i) => { const look = getComputedStyle(e), c = copy.querySelectorAll("*")[i]; for (const k of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size"]) c.setAttribute(k, look.getPropertyValue(k)); });
      copy.setAttribute("x", 8); copy.setAttribute("y", y + 40); copy.setAttribute("width", w);
      const names = [...box.querySelectorAll(".legend span")].map((e) => `${e.childNodes[1].textContent} ${e.querySelector("b").textContent}`).join(", ");
      root.append(s("text", { x: 4, y: y + 16, "font-size": 14 }, `${box.querySelector("h4").textContent}, ${box.querySelector("small").textContent}`), s("text", { x: 4, y: y + 34, "font-size": 11 }, names), copy);
      y += 200; wide = Math.max(wide, w + 16, 820);
    }
    root.append(s("text", { x: 4, y: y + 12, "font-size": 11 }, `${TTSD.madeWords(first).join(" · ")} · ${first.conditions.join(" · ")}`));
    root.setAttribute("viewBox", `0 0 ${wide} ${y + 24}`);
    TTSD.save("charts.svg", new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" }));
  };

  TTSD.page = () => {            // one file: sound, maps whose lines move together, figures, conditions
    const lanes = TTSD.board.lanes().filter(TTSD.count.done), span = Math.max(...lanes.map((l) => l.seconds));
    const rows = TTSD.rows(lanes), cell = (c) => `<td>${escape(c.words)}${c.share === null ? "" : `<small>${Math.round(100 * c.share)} % of its baseline</small>`}</td>`;
    const parts = lanes.map((l) => {
      const map = bare(l), [title, made, conditions] = under(l), quick = TTSD.count.faster(l.speed);
      const left = map ? 100 * map.gutter : 0;
      return `<section data-track='${escape(JSON.stringify(l.track || []))}'><h2>${escape(title)}</h2><p>${escape(made)}</p>${quick ? `<p><b>${escape(quick.words)}</b> (${escape(TTSD.count.range(quick.range))})</p>` : ""}
        <audio controls src="data:audio/wav;base64,${l.wav}"></audio>${map ? `<div class="map" data-left="${left}" data-span="${span * map.width * (1 - map.gutter) / (map.width * (1 - map.gutter) - 12)}"><img alt="Attention, passes and spectrogram of ${escape(title)}" src="${map.canvas.toDataURL()}"><i></i></div>` : ""}<p class="quiet">${escape([...(l.warnings || []), conditions].join(" · "))}</p></section>`;
    });
    const script = `const all=[...document.querySelectorAll("section")].map(e=>({a:e.querySelector("audio"),m:e.querySelector(".map"),k:JSON.parse(e.dataset.track)}));
const at=(p,f,t,x)=>{for(let i=1;i<p.length;i++)if(x<=p[i][f])return p[i-1][t]+(p[i][f]>p[i-1][f]?(x-p[i-1][f])/(p[i][f]-p[i-1][f]):0)*(p[i][t]-p[i-1][t]);return p.length?p[p.length-1][t]:x};
const put=(o,t)=>{if(o.m){const l=+o.m.dataset.left;o.m.querySelector("i").style.left=l+(100-l)*t/o.m.dataset.span+"%"}};
all.forEach(o=>{o.a.onplay=()=>all.forEach(q=>q!==o&&q.a.pause());o.a.ontimeupdate=()=>{const t=o.a.currentTime;all.forEach(q=>put(q,q===o?t:o.k.length&&q.k.length?at(q.k,1,0,at(o.k,0,1,t)):t))};
if(o.m)o.m.onclick=e=>{const b=o.m.getBoundingClientRect(),l=+o.m.dataset.left,x=100*(e.clientX-b.left)/b.width;if(x>l){o.a.currentTime=(x-l)/(100-l)*o.m.dataset.span;o.a.play()}}});`;
    return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Faster speech, side by side</title>
<style>body{font:15px/1.5 sans-serif;max-width:1100px;margin:24px auto;padding:0 16px;color:${TTSD.colour("--ink")};background:${TTSD.colour("--card")}}h2{font-size:17px;margin:22px 0 2px}p{margin:2px 0}.quiet,small{color:${TTSD.colour("--quiet")};font-size:12px}small{display:block}audio{width:100%}.map{position:relative;cursor:pointer}.map img{width:100%;display:block}.map i{position:absolute;top:0;bottom:0;width:2px;margin-left:-1px;background:#f33}.map i:not([style]){display:none}table{border-collapse:collapse;width:100%}td,th{text-align:left;border-bottom:1px solid ${TTSD.colour("--line")};padding:5px 8px 5px 0;vertical-align:top}</style>
<h1>Faster speech, side by side</h1><p>Synthetic speech. ${escape(new Date().toLocaleString("en"))}</p>${parts.join("")}
<h2>Figures</h2><table><tr><th>Measure</th>${lanes.map((l) => `<th>${escape(l.title)}<small>${escape(l.dials || "")}</small></th>`).join("")}</tr>${rows.map((r) => `<tr><th>${escape(r.name)}<small>${escape(r.meaning)}</small></th>${r.cells.map(cell).join("")}</tr>`).join("")}</table><script>${script}</scr` + `ipt></html>`;
  };

  TTSD.mounts.export = (root) => {
    root.className = "row exports";
    const draw = () => {
      const lanes = TTSD.board.lanes().filter(TTSD.count.done);
      root.replaceChildren(...(lanes.length ? [TTSD.button("Save as one page (HTML)", { class: "small" }, () => TTSD.save("comparison.html", new Blob([TTSD.page()], { type: "text/html" }))),
        TTSD.button("Charts (SVG)", { class: "small" }, charts),
        ...lanes.filter((l) => l.attention).flatMap((l) => [TTSD.button(`Map of ${l.title} (PNG)`, { class: "small" }, () => png(l)), TTSD.button("SVG", { class: "small", "aria-label": `Map of ${l.title} as SVG` }, () => svg(l))])] : []));
    };
    TTSD.board.on(draw);
    draw();
  };
})();

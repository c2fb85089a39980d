// Saving what is on the board: maps and charts as pictures with their conditions in them, and the whole comparison as one page that plays without a server.
(() => {
  const { h, s } = TTSD;
  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
  const under = (lane) => [`${lane.title}${lane.dials ? `, ${lane.dials}` : ""}`, TTSD.madeWords(lane).join(" · "), TTSD.count.conditions(lane)];
  const bare = (lane) => {       // the map as it stands on the board: labels and picture side by side, the scale of weights beneath
    const view = TTSD.board.view(lane.id);
    if (!view) return null;
    const all = document.createElement("canvas"), g = all.getContext("2d"), scale = window.devicePixelRatio || 1, bar = document.querySelector("#board .scale i");
    all.width = view.gutter.width + view.canvas.width; all.height = view.canvas.height + (lane.attention ? 24 * scale : 0);
    g.fillStyle = TTSD.colour("--card"); g.fillRect(0, 0, all.width, all.height);
    g.drawImage(view.gutter, 0, 0); g.drawImage(view.canvas, view.gutter.width, 0);
    if (lane.attention) {
      const y = view.canvas.height / scale + 17, ramp = g.createLinearGradient(78, 0, 148, 0), colours = getComputedStyle(bar).backgroundImage.match(/rgb\([^)]*\)/g);
      colours.forEach((c, i) => ramp.addColorStop(i / (colours.length - 1), c));
      g.setTransform(scale, 0, 0, scale, 0, 0);
      g.fillStyle = ramp; g.fillRect(78, y - 9, 70, 9);
      g.fillStyle = TTSD.colour("--quiet"); g.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
      g.textAlign = "right"; g.fillText("weight 0", 71, y); g.textAlign = "left"; g.fillText(bar.nextSibling.textContent, 155, y);
    }
    return { canvas: all, scale, gutter: view.gutter.width / all.width, width: all.width / scale, height: all.height / scale };
  };
  const heads = (lane) => {      // whose attention a map shows; one that the board never asked for anew is of the clearest heads
    const chosen = [...document.querySelectorAll("#board .map-bar select:not([hidden])")].map((e) => e.selectedOptions[0].text);
    return lane.attention ? [`Attention map: ${(lane.attention.view ? chosen.join(", ") : "Clearest heads").toLowerCase()}`] : [];
  };
  const long = (text, size) => { const g = document.createElement("canvas").getContext("2d"); g.font = `${size}px sans-serif`; return g.measureText(text).width; };
  // A picture that can leave the page: lines of text above and beneath what is drawn, on this theme's card.
  const sheet = (width, height, above, body, beneath) => {
    const line = (size, y, text, ink) => s("text", { x: 8, y, "font-size": size, fill: TTSD.colour(ink) }, text);
    const top = 14 + 18 * above.length, wide = Math.ceil(Math.max(width, ...above.map((t) => long(t, 14) + 20), ...beneath.map((t) => long(t, 11) + 20))), tall = top + height + 18 * beneath.length + 12;
    body.setAttribute("transform", `translate(0 ${top})`);
    return s("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${wide} ${tall}`, width: wide, height: tall, "font-family": "sans-serif" }, s("rect", { width: wide, height: tall, fill: TTSD.colour("--card") }),
      ...above.map((t, i) => line(i ? 12 : 14, 20 + 18 * i, t, i ? "--quiet" : "--ink")), body, ...beneath.map((t, i) => line(11, top + height + 18 * (i + 1), t, "--quiet")));
  };
  const svg = (name, drawn) => { if (drawn) TTSD.save(`${name}.svg`, new Blob([new XMLSerializer().serializeToString(drawn)], { type: "image/svg+xml" })); };
  const png = async (name, drawn) => {         // the same at twice its size
    if (!drawn) return;
    const image = new Image(), c = document.createElement("canvas"), { width, height } = drawn.viewBox.baseVal;
    image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(drawn))}`;
    await image.decode();
    c.width = 2 * width; c.height = 2 * height;
    c.getContext("2d").drawImage(image, 0, 0, c.width, c.height);
    c.toBlob((blob) => TTSD.save(`${name}.png`, blob));
  };
  const map = (lane) => {
    const m = bare(lane), [title, made, conditions] = under(lane);
    return m && sheet(m.width, m.height, [title, made], s("g", {}, s("image", { href: m.canvas.toDataURL(), width: m.width, height: m.height })), [...heads(lane), conditions]);
  };
  const frozen = (drawn, at) => {  // a drawing that no longer needs the page's style
    const copy = drawn.cloneNode(true), parts = copy.querySelectorAll("*"), look = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "opacity"];
    drawn.querySelectorAll("*").forEach((e, i) => { const seen = getComputedStyle(e); for (const k of look) parts[i].setAttribute(k, seen.getPropertyValue(k)); });
    for (const [k, v] of Object.entries(at)) copy.setAttribute(k, v);
    return copy;
  };
  const charts = () => {         // all charts as they are drawn, one under the other, with their keys; the conditions of every lane beneath
    const all = s("g", {}), line = (x, y, size, text) => { all.append(s("text", { x, y, "font-size": size, fill: TTSD.colour("--ink") }, text)); wide = Math.max(wide, x + long(text, size) + 8); };
    let y = 0, wide = 0;
    for (const box of document.querySelectorAll("#figures .chart")) {
      const inner = box.querySelector(":scope > svg"), { width, height } = inner.getBoundingClientRect();
      if (!width) continue;
      line(8, y + 16, 13, [...box.querySelectorAll("h4, small")].map((e) => e.textContent).join(", "));
      y += 34;
      for (const span of box.querySelectorAll(".legend span")) {
        all.append(frozen(span.querySelector("svg"), { x: 8, y: y - 8, width: 30, height: 8 }));
        line(46, y, 11, span.textContent);
        y += 17;
      }
      all.append(frozen(inner, { x: 8, y, width, height }));
      y += height + 8; wide = Math.max(wide, width + 16);
      for (const said of box.querySelectorAll(":scope > p")) for (const part of said.textContent.split(/(?<=[.;]) /)) line(8, y += 15, 11, part);
      y += 18;
    }
    return y ? sheet(wide, y, [document.title], all, TTSD.board.lanes().filter(TTSD.count.done).flatMap((l) => { const [title, made, conditions] = under(l); return [`${title} · ${made}`, conditions]; })) : null;
  };

  TTSD.page = () => {            // one file: sound, maps whose lines move together, figures, conditions
    const lanes = TTSD.board.lanes().filter(TTSD.count.done), span = Math.max(...lanes.map((l) => l.seconds));
    const rows = TTSD.rows(lanes), cell = (c) => `<td>${escape(c.words)}${c.verdict ? `<small class="${c.verdict.kind}">${escape(c.verdict.words)}</small>` : ""}</td>`;
    const parts = lanes.map((l) => {
      const map = bare(l), [title, made, conditions] = under(l), quick = TTSD.count.model(l);
      const left = map ? 100 * map.gutter : 0;
      return `<section data-track='${escape(JSON.stringify(l.track || []))}'><h2>${escape(title)}</h2><p>${escape(made)}</p>${quick ? `<p>Language model: <b>${escape(quick.words)}</b> (${escape(quick.range)})</p>` : ""}
        <audio controls src="data:audio/wav;base64,${l.wav}"></audio>${map ? `<div class="map" data-left="${left}" data-span="${span * map.width * (1 - map.gutter) / (map.width * (1 - map.gutter) - 12)}"><img alt="Attention, passes and spectrogram of ${escape(title)}" src="${map.canvas.toDataURL()}"><i></i></div>` : ""}<p class="quiet">${escape([...(l.warnings || []), ...(map ? heads(l) : []), conditions].join(" · "))}</p></section>`;
    });
    const script = `const all=[...document.querySelectorAll("section")].map(e=>({a:e.querySelector("audio"),m:e.querySelector(".map"),k:JSON.parse(e.dataset.track)}));
const at=(p,f,t,x)=>{for(let i=1;i<p.length;i++)if(x<=p[i][f])return p[i-1][t]+(p[i][f]>p[i-1][f]?(x-p[i-1][f])/(p[i][f]-p[i-1][f]):0)*(p[i][t]-p[i-1][t]);return p.length?p[p.length-1][t]:x};
const put=(o,t)=>{if(o.m){const l=+o.m.dataset.left;o.m.querySelector("i").style.left=l+(100-l)*t/o.m.dataset.span+"%"}};
all.forEach(o=>{o.a.onplay=()=>all.forEach(q=>q!==o&&q.a.pause());o.a.ontimeupdate=()=>{const t=o.a.currentTime;all.forEach(q=>put(q,q===o?t:o.k.length&&q.k.length?at(q.k,1,0,at(o.k,0,1,t)):t))};
if(o.m)o.m.onclick=e=>{const b=o.m.getBoundingClientRect(),l=+o.m.dataset.left,x=100*(e.clientX-b.left)/b.width;if(x>l){o.a.currentTime=(x-l)/(100-l)*o.m.dataset.span;o.a.play()}}});`;
    return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Faster speech, side by side</title>
<style>body{font:15px/1.5 sans-serif;max-width:1100px;margin:24px auto;padding:0 16px;color:${TTSD.colour("--ink")};background:${TTSD.colour("--card")}}h2{font-size:17px;margin:22px 0 2px}p{margin:2px 0}.quiet,small{color:${TTSD.colour("--quiet")};font-size:12px}small{display:block}.good{color:${TTSD.colour("--ok")}}.bad{color:${TTSD.colour("--no")}}audio{width:100%}.map{position:relative;cursor:pointer}.map img{width:100%;display:block}.map i{position:absolute;top:0;bottom:0;width:2px;margin-left:-1px;background:#f33}.map i:not([style]){display:none}table{border-collapse:collapse;width:100%}td,th{text-align:left;border-bottom:1px solid ${TTSD.colour("--line")};padding:5px 8px 5px 0;vertical-align:top}</style>
<h1>Faster speech, side by side</h1><p>Synthetic speech. ${escape(new Date().toLocaleString("en"))}</p>${parts.join("")}
<h2>Figures</h2><table><tr><th>Measure</th>${lanes.map((l) => `<th>${escape(l.title)}<small>${escape(l.dials || "")}</small></th>`).join("")}</tr>${rows.map((r) => `<tr><th>${escape(r.name)}<small>${escape(r.meaning)}</small></th>${r.cells.map(cell).join("")}</tr>`).join("")}</table><script>${script}</scr` + `ipt></html>`;
  };

  TTSD.mounts.export = (root) => {
    root.className = "row exports";
    const pair = (words, name, draw) => [TTSD.button(`${words} (PNG)`, { class: "small" }, () => png(name, draw())), TTSD.button("SVG", { class: "small", "aria-label": `${words} as SVG` }, () => svg(name, draw()))];
    const draw = () => {
      const lanes = TTSD.board.lanes().filter(TTSD.count.done);
      root.replaceChildren(...(lanes.length ? [TTSD.button("Save as one page (HTML)", { class: "small" }, () => TTSD.save("comparison.html", new Blob([TTSD.page()], { type: "text/html" }))),
        ...pair("Charts", "charts", charts), ...lanes.filter((l) => l.attention).flatMap((l) => pair(`Map of ${l.title}`, `${l.method}-map`, () => map(l)))] : []));
    };
    TTSD.board.on(draw);
    draw();
  };
})();

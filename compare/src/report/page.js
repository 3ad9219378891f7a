// Tabs in place of one table below the other, and the name of the dot that is pointed at or focused: without it, all tables show.
const tabs = document.querySelector(".tabs");
const choose = (chosen) => {
  for (const button of tabs.children) button.setAttribute("aria-pressed", button === chosen);
  for (const tab of document.querySelectorAll(".tab")) tab.hidden = tab.dataset.tab !== chosen.dataset.tab;
};
if (tabs) {
  tabs.hidden = false;
  tabs.addEventListener("click", ({ target }) => target.dataset.tab && choose(target));
  choose(tabs.children[0]);
}
for (const figure of document.querySelectorAll(".dots")) {
  const dots = [...figure.querySelectorAll("a")], name = figure.querySelector("output");
  const tell = ({ target }) => { name.textContent = target.closest("a")?.getAttribute("aria-label") ?? name.textContent; };
  for (const kind of ["focusin", "mouseover"]) figure.addEventListener(kind, tell);
  // One stop for the tabulator; arrows go from dot to dot.
  for (const dot of dots.slice(1)) dot.setAttribute("tabindex", -1);
  figure.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = dots.indexOf(document.activeElement);
    if (!by || at < 0) return;
    event.preventDefault();
    dots[at].setAttribute("tabindex", -1);
    const next = dots[(at + by + dots.length) % dots.length];
    next.setAttribute("tabindex", 0);
    next.focus();
  });
}

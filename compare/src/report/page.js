for (const button of document.querySelectorAll(".tabs button")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".tabs button")) other.setAttribute("aria-pressed", other === button);
    for (const tab of document.querySelectorAll(".tab")) tab.hidden = tab.dataset.tab !== button.dataset.tab;
  });
}

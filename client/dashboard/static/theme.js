// Before anything is drawn: the theme that was chosen here before; else the system's.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("delbo-theme");
  } catch { /* storage is switched off: the system's */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

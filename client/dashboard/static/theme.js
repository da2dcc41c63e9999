// Before anything is drawn: the theme that was chosen here before; else the system's.
(() => {
  const chosen = localStorage.getItem("delbo-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

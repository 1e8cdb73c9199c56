// Sections below the first screen are folded: links into them open them, and a button and printing all.
(() => {
  "use strict";
  const folds = [...document.querySelectorAll("details")];

  function open_around(hash) {
    const target = hash && document.getElementById(hash.slice(1));
    const inside = target && target.querySelector(":scope > details.fold");
    if (inside) inside.open = true;
    for (let around = target; around; around = around.parentElement) {
      if (around.localName === "details") around.open = true;
    }
    return target;
  }

  // Before the browser goes there, so that it knows where that is.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link) open_around(link.hash);
  });
  addEventListener("hashchange", () => open_around(location.hash));
  const target = open_around(location.hash);
  if (target) target.scrollIntoView();

  let before = [];
  addEventListener("beforeprint", () => {
    before = folds.map((fold) => fold.open);
    for (const fold of folds) fold.open = true;
  });
  addEventListener("afterprint", () => folds.forEach((fold, i) => { fold.open = before[i]; }));

  const nav = document.querySelector("nav");
  if (!nav || !folds.length) return;
  for (const [words, open] of [["Open all", true], ["Fold all", false]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words;
    button.addEventListener("click", () => { for (const fold of folds) fold.open = open; });
    nav.append(button);
  }
})();

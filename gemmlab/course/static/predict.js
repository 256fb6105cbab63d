"use strict";
// A reader's prediction beside the measurement: the figures below the form appear when it is given.
for (const form of document.querySelectorAll("form.predict")) {
  const measured = Number(form.dataset.measured), below = [];
  for (let one = form.nextElementSibling; one && one.tagName !== "H2"; one = one.nextElementSibling) below.push(one);
  const show = (shown) => { for (const one of below) one.hidden = !shown; };
  const say = (predicted) => {
    const factor = predicted > measured ? predicted / measured : measured / predicted;
    form.querySelector("output").textContent = predicted > 0
      ? `You: ${predicted}. Measured: ${measured}. ${factor < 1.1 ? "Right, within 10 %." : `${factor.toPrecision(2)} times too ${predicted > measured ? "much" : "little"}.`}`
      : `Measured: ${measured}.`;
  };
  show(false);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    say(Number(form.querySelector("input").value.replace(",", ".")));
    show(true);
  });
}

// looks.js: what a test asks of a page's looks: contrast of its texts, and controls that the keyboard does not reach.
// The file is one expression: an object of functions, which each return faults as lines.
(() => {
  const kContrast = 4.5;  // WCAG 2, level AA, for text of any size
  const kControls = 'a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex="-1"]), [contenteditable]';

  const pixel = document.createElement('canvas').getContext('2d', {willReadFrequently: true});

  const colors = new Map();

  // [red, green, blue, alpha] of a color in any notation, 0 to 1.
  function color(text) {
    if (!colors.has(text)) colors.set(text, painted(text));
    return [...colors.get(text)];
  }

  function painted(text) {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = text;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    return [r / 255, g / 255, b / 255, a / 255];
  }

  function over(front, back) {
    const alpha = front[3];
    return [0, 1, 2].map((i) => front[i] * alpha + back[i] * (1 - alpha)).concat(1);
  }

  function luminance(c) {
    const [r, g, b] = c.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(a, b) {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  }

  const isDark = () => matchMedia('(prefers-color-scheme: dark)').matches;

  // What is painted below an element's text, and how much of the element shows.
  function below(element) {
    const chain = [];
    let opacity = 1;
    for (let e = element; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      chain.push(color(style.backgroundColor));
      opacity *= Number(style.opacity);
    }
    const canvas = isDark() ? [0.07, 0.07, 0.07, 1] : [1, 1, 1, 1];
    return {paint: chain.reverse().reduce((back, front) => over(front, back), canvas), opacity};
  }

  function isSeen(element) {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && box.width > 1 && box.height > 1 &&
           style.clipPath === 'none';
  }

  function nameOf(element) {
    const marks = [...element.attributes].filter((a) => /^(id|class|data-|href)/.test(a.name));
    return `<${element.tagName.toLowerCase()} ${marks.map((a) => `${a.name}="${a.value.slice(0, 60)}"`).join(' ')}>`;
  }

  function textFault(element, text, colorText) {
    const {paint, opacity} = below(element);
    const front = color(colorText);
    front[3] *= opacity;
    const found = contrast(over(front, paint), paint);
    return found >= kContrast ? null : `${found.toFixed(2)} ${nameOf(element)} ${colorText}: ${text.trim().slice(0, 60)}`;
  }

  function contrastFaults() {
    const faults = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || /^(SCRIPT|STYLE|NOSCRIPT|OPTION|DATALIST)$/.test(element.tagName)) continue;
      if (!isSeen(element) || element.closest(':disabled, [aria-disabled=true], .unseen')) continue;
      const style = getComputedStyle(element);
      faults.add(textFault(element, node.data, element instanceof SVGElement ? style.fill : style.color));
    }
    for (const control of document.querySelectorAll('input, select, textarea')) {
      if (!isSeen(control) || control.disabled || /^(checkbox|radio|range)$/.test(control.type)) continue;
      faults.add(textFault(control, control.value || 'value', getComputedStyle(control).color));
      if (control.placeholder && !control.value)
        faults.add(textFault(control, control.placeholder, getComputedStyle(control, '::placeholder').color));
    }
    faults.delete(null);
    return [...faults];
  }

  // Elements that reach over the right side of the window, if the page scrolls sideways.
  function widthFaults() {
    const width = document.scrollingElement.scrollWidth;
    if (width <= innerWidth) return [];
    const wide = [...document.body.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1);
    return [`${width} > ${innerWidth}`, ...wide.slice(0, 5).map(nameOf)];
  }

  function controls() {
    return [...document.querySelectorAll(kControls)].filter((e) =>
      !e.disabled && e.tabIndex >= 0 && e.checkVisibility({checkVisibilityCSS: true}) && !e.closest('[inert]'));
  }

  // From here on, which elements get the focus, and which of them do not show it.
  function watchFocus() {
    window.focused = new Set();
    window.unmarked = new Set();
    document.activeElement?.blur();
    document.addEventListener('focusin', ({target}) => {
      window.focused.add(target);
      const style = getComputedStyle(target);
      const isMarked = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
      if (!isMarked) window.unmarked.add(target);
    });
    return controls().length;
  }

  // The keyboard goes to one radio button of a group.
  function isReached(element) {
    if (window.focused.has(element)) return true;
    return element.type === 'radio' && [...window.focused].some((e) => e.type === 'radio' && e.name === element.name);
  }

  function focusFaults() {
    const missed = controls().filter((element) => !isReached(element)).map((e) => `not reached by Tab: ${nameOf(e)}`);
    const unmarked = [...window.unmarked].map((e) => `does not show the focus: ${nameOf(e)}`);
    const clicked = [...document.querySelectorAll('body *')].filter((e) =>
      getComputedStyle(e).cursor === 'pointer' && isSeen(e) && !e.closest(`${kControls}, label`));
    return [...missed, ...unmarked, ...clicked.map((e) => `only for a mouse: ${nameOf(e)}`)];
  }

  function nameFaults() {
    return controls().filter((e) => {
      const labels = e.labels ? [...e.labels].map((label) => label.textContent).join('') : '';
      const by = (e.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent ?? '');
      return !(labels + by.join('') + (e.getAttribute('aria-label') ?? '') + e.textContent).trim();
    }).map((e) => `has no name: ${nameOf(e)}`);
  }

  return {contrastFaults, widthFaults, watchFocus, focusFaults, nameFaults};
})()

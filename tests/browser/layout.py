"""What is wrong with the layout of a page: things beyond its edge, and things on top of one another."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# In each group, nothing may lie on anything else.
_GROUPS = (
    ".brand, header nav a, #actions button, #connection, #theme",
    "header.bar, #summary, main",
    "main .card, .tools, .dots, .help",
    ".tools > *",
    ".segments button",
    ".map-head > *",
    ".map > *",
    ".curve-head > *, .chart",
    "#agents td, #agents th",
    ".legend li",
    "#graph .ring",
)
# Words that must fit into what they stand in.
_WORDS = "button, a.button, nav a, h2, th, #connection, .legend li, .dots li, .tools label, .state"

_FAULTS = """([groups, wordy]) => {
    const words = (one) => one.textContent.trim().slice(0, 30);
    const name = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute('class')} "${words(one)}"`;
    const seen = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility());
    const faults = [];
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth) faults.push(`the page is ${wide} px wide`);
    for (const selector of groups) {
        const all = seen(selector).map((one) => [one, one.getBoundingClientRect()]);
        const boxes = all.filter(([, box]) => box.width && box.height);
        for (const [one, box] of boxes) {
            if (box.left < -0.5 || box.right > innerWidth + 0.5) faults.push(`${name(one)} leaves the page`);
        }
        boxes.forEach(([one, a], index) => boxes.slice(index + 1).forEach(([other, b]) => {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across <= 1 || down <= 1 || one.contains(other) || other.contains(one)) return;
            faults.push(`${name(one)} lies on ${name(other)}`);
        }));
    }
    for (const one of seen(wordy)) {
        if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth) faults.push(`${name(one)} does not fit`);
    }
    for (const node of seen('#graph .node')) {
        const ring = node.querySelector('.ring').getBoundingClientRect();
        for (const text of node.querySelectorAll('text')) {
            const box = text.getBoundingClientRect();
            if (box.left < ring.left || box.right > ring.right) faults.push(`${name(text)} does not fit into its node`);
        }
    }
    return faults;
}"""


def layout_faults(page: "Page") -> list[str]:
    """What is wrong, in words."""
    return list(page.evaluate(_FAULTS, [list(_GROUPS), _WORDS]))

"""Plans as texts that notebooks show as trees."""

from __future__ import annotations


class Explanation(str):
    """The text of a plan, which notebooks show as a tree."""

    __slots__ = ("html",)

    #: The same plan as a page.
    html: str

    def __new__(cls, text: str, html: str) -> Explanation:
        """`text`, which notebooks show as the page `html`."""
        made = super().__new__(cls, text)
        made.html = html
        return made

    def _repr_html_(self) -> str:
        return fragment(self.html)


def fragment(page: str) -> str:
    """The body of a page, to be put into another."""
    _, begin, rest = page.partition("<body>")
    return rest.partition("</body>")[0].strip() if begin else page

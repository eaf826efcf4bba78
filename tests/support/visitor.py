"""A user with a browser, without the browser: follows the page's real form as it is, cookies and all."""

import http.client
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit


@dataclass
class Page:
    url: str
    status: int
    headers: http.client.HTTPMessage
    text: str
    action: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)
    """What would be sent as the form is: hidden fields, ticked boxes, prefilled text."""
    buttons: list[tuple[str, str]] = field(default_factory=list)

    @property
    def scopes(self) -> list[str]:
        return [value for name, value in self.fields if name == "scope"]

    @property
    def said(self) -> dict[str, str]:
        """The parameters of the address that it sends its visitor to."""
        query = parse_qs(urlsplit(self.headers["location"]).query, keep_blank_values=True)
        assert all(len(values) == 1 for values in query.values()), query
        return {name: values[0] for name, values in query.items()}


class Visitor:
    def __init__(self) -> None:
        self.cookies: dict[str, str] = {}

    def open(self, url: str, **headers: str) -> Page:
        return self._ask("GET", url, None, headers)

    def answer(
        self,
        page: Page,
        decision: str = "allow",
        *,
        subject: str | None = None,
        without: tuple[str, ...] = (),
    ) -> Page:
        """Presses the button; `without`: the scopes whose boxes are cleared before."""
        assert ("decision", decision) in page.buttons, page.text
        chosen = [(n, v) for n, v in page.fields if not (n == "scope" and v in without)]
        if subject is not None:
            chosen = [(n, subject if n == "subject" else v) for n, v in chosen]
        return self.submit(page, [*chosen, ("decision", decision)])

    def submit(self, page: Page, fields: list[tuple[str, str]], **headers: str) -> Page:
        parts = urlsplit(page.url)
        sent = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": f"{parts.scheme}://{parts.netloc}",
        }
        return self._ask("POST", urljoin(page.url, page.action), urlencode(fields), sent | headers)

    def allow(self, url: str, **chosen) -> dict[str, str]:
        """All the way: what the client is told in the end."""
        return self.answer(self.open(url), **chosen).said

    def _ask(self, verb: str, url: str, body: str | None, headers: dict[str, str]) -> Page:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=30)
        sent = dict(headers)
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection.request(verb, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, sent)
        answer = connection.getresponse()
        page = Page(url, answer.status, answer.headers, answer.read().decode())
        connection.close()
        for cookie in SimpleCookie(answer.headers.get("set-cookie", "")).values():
            self.cookies[cookie.key] = cookie.value
        _Form(page).feed(page.text)
        return page


class _Form(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self._page = page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._page.action = given["action"]
        elif tag == "button":
            self._page.buttons.append((given["name"], given["value"]))
        elif tag == "input" and (given.get("type") != "checkbox" or "checked" in given):
            self._page.fields.append((given["name"], given["value"]))

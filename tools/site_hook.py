"""What MkDocs does for mkdocs.yml in addition to its own work (tools/site).

Links that leave docs/ work in the repository. Here their targets become pages below repository/, and links between
pages are rewritten to where each is. Headings get the anchors that code hosts give them. llms.txt lists the pages in
the order of the navigation, with a copy of each as Markdown next to its HTML, for programs that read.
"""
import os
import posixpath
import re

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUTSIDE = "repository/"
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"\s*(```|~~~)")

navigation = None


def in_site(path):
    """The place in the site of a file of the repository; one without a suffix is text."""
    if path.startswith("docs/"):
        return path[len("docs/"):]
    return OUTSIDE + path + ("" if "." in posixpath.basename(path) else ".txt")


def in_repository(place):
    return place[len(OUTSIDE):] if place.startswith(OUTSIDE) else "docs/" + place


def prose(markdown):
    """Lines, each with whether it is outside fenced code."""
    is_code = False
    for line in markdown.split("\n"):
        is_fence = bool(FENCE.match(line))
        yield line, not (is_code or is_fence)
        is_code ^= is_fence


def targets(path):
    """Files of the repository that a page of it links."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as page:
        for line, is_prose in prose(page.read()):
            for link in LINK.finditer(line) if is_prose else ():
                yield posixpath.normpath(posixpath.join(posixpath.dirname(path), link.group(1)))


def places_in(entries):
    """The pages that a navigation names, at any depth."""
    if isinstance(entries, str):
        return [entries]
    inner = entries.values() if isinstance(entries, dict) else entries
    return [place for entry in inner for place in places_in(entry)]


def on_config(config):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = lambda text, _: re.sub(
        r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
    return config


def on_files(files, config):
    pages = [in_repository(place) for place in places_in(config["nav"])]
    seen = set(pages) | {in_repository(file.src_uri) for file in files}
    while pages:
        path = pages.pop()
        if not path.startswith("docs/"):
            file = File(in_site(path), ROOT, config["site_dir"], config["use_directory_urls"])
            file.abs_src_path = os.path.join(ROOT, path)
            files.append(file)
        new = [] if not path.endswith(".md") else [target for target in targets(path) if target not in seen]
        pages += new
        seen.update(new)
    return files


def on_nav(nav, config, files):
    global navigation
    navigation = nav
    return nav


def on_page_markdown(markdown, page, config, files):
    path = in_repository(page.file.src_uri)

    def rewritten(link):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.group(1)))
        here = posixpath.dirname(in_site(path)) or "."
        return "](" + posixpath.relpath(in_site(target), here) + (link.group(2) or "") + ")"

    return "\n".join(LINK.sub(rewritten, line) if is_prose else line for line, is_prose in prose(markdown))


def first_sentence(markdown):
    """Of the first paragraph, without its marks."""
    text = "\n".join(line for line, is_prose in prose(markdown) if is_prose)
    for paragraph in re.split(r"\n\s*\n", text):
        if re.match(r"\s*($|[#|<!*-])", paragraph):
            continue
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", " ".join(paragraph.split()))
        return re.sub(":$", ".", re.match(r".*?\.(?=\s|$)|.*", plain).group())
    return ""


def on_post_build(config):
    lines = ["# " + config["site_name"], "", "> " + config["site_description"] + ".", ""]

    def add(items, depth):
        for item in items:
            if item.is_section:
                lines.extend(([""] if lines[-1] else []) + ["#" * min(depth, 3) + " " + item.title, ""])
                add(item.children, depth + 1)
            elif item.is_page:
                place = item.file.src_uri
                lines.append("- [{}]({}): {}".format(item.title, place, first_sentence(item.markdown)))
                copy = os.path.join(config["site_dir"], place)
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                with open(copy, "w", encoding="utf-8") as out:
                    out.write(item.markdown)

    add(navigation.items, 2)
    with open(os.path.join(config["site_dir"], "llms.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")

package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// markdownLink finds the target of an inline link.
var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// notInAnchor are the characters that a heading loses on its way to its anchor.
var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// sourcePath finds a source file that a page names in a code span.
var sourcePath = regexp.MustCompile(
	"`((?:cli|cmd|config|daemon|cluster|cri|gc|httpapi|internal|manifest|node|probe|supervisor|test)/[a-z0-9_/]+\\.go)`")

// anchors returns the anchors of a Markdown page, one for each heading.
func anchors(text string) map[string]bool {
	found, code := map[string]bool{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if heading := strings.TrimLeft(line, "#"); !code && heading != line && strings.HasPrefix(heading, " ") {
			heading = notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			found[strings.ReplaceAll(heading, " ", "-")] = true
		}
	}
	return found
}

// Every link of a page to another page, to a file of the tree or to a heading leads
// somewhere, and every source file that a page names exists.
func TestDocumentationLinks(t *testing.T) {
	const root = "../.."
	cmd := exec.Command("git", "ls-files", "*.md")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, page := range strings.Fields(string(out)) {
		data, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		pages[page] = string(data)
	}
	if len(pages) < 10 {
		t.Fatalf("git lists %d pages only: %v", len(pages), pages)
	}
	for page, text := range pages {
		for _, match := range sourcePath.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
		for _, match := range markdownLink.FindAllStringSubmatch(text, -1) {
			link, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(link, "://") {
				continue
			}
			target := page
			if link != "" {
				target = filepath.Join(filepath.Dir(page), link)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, match[1])
				continue
			}
			if anchor != "" && !anchors(pages[target])[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", page, match[1], target)
			}
		}
	}
}

// maxPageLines is how many lines a page of docs may have, but for those that a program writes: a page has
// one subject.
const maxPageLines = 250

var generatedPages = map[string]bool{"configuration.md": true, "pod-spec.md": true}

// A page of the documentation has one subject, and is short enough to be read as a whole.
func TestPagesAreShort(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range append(pages, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		limit := maxPageLines
		if filepath.Base(page) == "README.md" && filepath.Base(filepath.Dir(page)) != "docs" {
			limit = 90
		}
		lines := strings.Count(string(text), "\n")
		if lines > limit && !generatedPages[filepath.Base(page)] {
			t.Errorf("%s has %d lines, at most %d: split it by subject, or shorten it", page, lines, limit)
		}
	}
}

package docs

import (
	"context"
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

var (
	siteLink = regexp.MustCompile(`\s(?:href|src|action)="([^"]*)"`)
	siteID   = regexp.MustCompile(`\sid="([^"]*)"`)
	// siteLoad finds what a browser loads with a page.
	siteLoad = regexp.MustCompile(`<(?:script|link|img|iframe)\s[^>]*(?:src|href)="([^"]*)"`)
)

// repositoryTree is where links of the site to what is no page lead.
const repositoryTree = "https://github.com/podstead/podstead/tree/main/"

// The site of the documentation has every page in its list of pages, no broken link, and nothing that a browser
// loads from elsewhere. Its search works in a browser, from files and without a network.
func TestSite(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "site", "BIN="+bin, "VERSION=v0.1.0-test",
		"HUGO="+filepath.Join(testbed.Cache(), "hugo-"+testbed.Version("HUGO_VERSION"), "hugo"))
	cmd.Dir = testbed.SourceRoot()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make site: %v\n%s", err, out)
	}
	site := filepath.Join(bin, "site")
	pages := sitePages(t, site)
	for page, text := range pages {
		checkSiteLinks(t, site, page, text, pages)
	}
	files, err := filepath.Glob(filepath.Join(testbed.SourceRoot(), "docs", "*.md"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d pages in docs: %v", len(files), err)
	}
	list, _, _ := strings.Cut(pages["index.html"], "<main")
	for _, file := range files {
		page := strings.Replace(strings.TrimSuffix(filepath.Base(file), ".md"), "README", "index", 1) + ".html"
		if !strings.Contains(list, `docs/`+page+`"`) {
			t.Errorf("the list of pages has no %s: docs/README.md does not link to it", page)
		}
	}
	if !strings.Contains(pages["index.html"], "v0.1.0-test") {
		t.Error("the pages do not show the version")
	}
	for query, want := range map[string]string{
		"nodefs.inodesFree":       `href="docs/eviction.html`,
		"roll  BACK automaticall": `href="docs/update.html#roll-back"`,
		"<b>&nosuchword":          "No section has all of these words.",
	} {
		results := browse(t, "file://"+site+"/search.html?q="+url.QueryEscape(query))
		if !strings.Contains(results, want) {
			t.Errorf("search for %q: no %q in\n%s", query, want, results)
		}
	}
}

// sitePages returns the HTML of each page of a site, by its path.
func sitePages(t *testing.T, site string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS(site), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		data, err := os.ReadFile(filepath.Join(site, name))
		pages[name] = string(data)
		return err
	})
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	return pages
}

// checkSiteLinks reports the links of a page that lead to no file, no heading or no file of the repository, and
// what the page loads from another host.
func checkSiteLinks(t *testing.T, site, page, text string, pages map[string]string) {
	t.Helper()
	for _, match := range siteLoad.FindAllStringSubmatch(text, -1) {
		if strings.Contains(match[1], "//") {
			t.Errorf("%s loads %s", page, match[1])
		}
	}
	for _, match := range siteLink.FindAllStringSubmatch(text, -1) {
		link := html.UnescapeString(match[1])
		if file, ok := strings.CutPrefix(link, repositoryTree); ok {
			if _, err := os.Stat(filepath.Join(testbed.SourceRoot(), file)); err != nil {
				t.Errorf("%s links to %s, which is not in the tree", page, link)
			}
			continue
		}
		if strings.Contains(link, "://") || strings.HasPrefix(link, "data:") {
			continue
		}
		link, anchor, _ := strings.Cut(link, "#")
		target := page
		if link != "" {
			target = path.Join(path.Dir(page), link)
		}
		if info, err := os.Stat(filepath.Join(site, target)); err != nil || info.IsDir() {
			t.Errorf("%s links to %s, which is no file", page, match[1])
		}
		if anchor != "" && !hasID(pages[target], anchor) {
			t.Errorf("%s links to %s, but %s has no such heading", page, match[1], target)
		}
	}
}

func hasID(text, id string) bool {
	for _, match := range siteID.FindAllStringSubmatch(text, -1) {
		if html.UnescapeString(match[1]) == id {
			return true
		}
	}
	return false
}

// browse returns what a browser shows in the main part of a page after its scripts have run.
func browse(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium-headless-shell", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=10000", "--dump-dom", address)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the browser with %s: %v\n%s", address, err, stderr.String())
	}
	_, shown, _ := strings.Cut(string(out), "<main")
	return shown
}

package httpapi

import (
	"errors"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// nodeLogs shows a folder of the host's logs and all below it. Nothing outside
// it is shown, wherever links lead, and nothing but plain files and folders: to
// open a pipe would wait for ever.
func nodeLogs(root string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("query") {
			http.Error(w, "journals are not searched here; use journalctl", http.StatusBadRequest)
			return
		}
		f, fi, err := openBelow(root, strings.TrimPrefix(r.URL.Path, "/logs/"))
		if err != nil {
			code := http.StatusForbidden
			if errors.Is(err, fs.ErrNotExist) {
				code = http.StatusNotFound
			}
			http.Error(w, "cannot show "+r.URL.Path+": "+withoutPath(err), code)
			return
		}
		defer f.Close()
		switch {
		case !fi.IsDir():
			// Logs are text, whatever they look like to a browser.
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.ServeContent(w, r, "", fi.ModTime(), f)
		case !strings.HasSuffix(r.URL.Path, "/"):
			http.Redirect(w, r, (&url.URL{Path: path.Base(r.URL.Path) + "/"}).String(), http.StatusMovedPermanently)
		default:
			listDirectory(w, f)
		}
	}
}

var errNoLog = errors.New("is neither a plain file nor a folder")

// openBelow opens a file below a folder. The system sees to it that nothing
// outside is reached; an absolute link that stays below is followed.
func openBelow(folder, name string) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	name = filepath.FromSlash(strings.TrimPrefix(path.Clean("/"+name), "/"))
	if name == "" {
		name = "."
	}
	if real, err := filepath.EvalSymlinks(filepath.Join(folder, name)); err == nil {
		if base, err := filepath.EvalSymlinks(folder); err == nil {
			if rel, err := filepath.Rel(base, real); err == nil && filepath.IsLocal(rel) {
				name = rel
			}
		}
	}
	fi, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() {
		return nil, nil, errNoLog
	}
	f, err := root.Open(name)
	return f, fi, err
}

// plain is an error without the path, which the client named himself.
func withoutPath(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// listFolder answers with links to what is in a folder, as the kubelet does.
func listDirectory(w http.ResponseWriter, f *os.File) {
	entries, err := f.ReadDir(-1)
	if err != nil {
		http.Error(w, withoutPath(err), http.StatusInternalServerError)
		return
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var page strings.Builder
	page.WriteString("<!doctype html>\n<pre>\n")
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		page.WriteString(`<a href="` + html.EscapeString((&url.URL{Path: "./" + name}).String()) + `">` + html.EscapeString(name) + "</a>\n")
	}
	page.WriteString("</pre>\n")
	_, _ = io.WriteString(w, page.String()) // a reader that went away needs no answer
}

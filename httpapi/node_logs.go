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

// nodeLogs serves the files below the directory of the host's logs. It serves nothing
// outside of it, even through links, and only regular files and directories: opening a
// pipe would block forever.
func nodeLogs(root string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("query") {
			http.Error(w, "query: log queries are not supported; use journalctl on the node", http.StatusBadRequest)
			return
		}
		f, fi, err := openBelow(root, strings.TrimPrefix(r.URL.Path, "/logs/"))
		if err != nil {
			code := http.StatusForbidden
			if errors.Is(err, fs.ErrNotExist) {
				code = http.StatusNotFound
			}
			http.Error(w, "failed to open "+r.URL.Path+": "+withoutPath(err), code)
			return
		}
		defer f.Close()
		switch {
		case !fi.IsDir():
			// Logs are text, whatever a browser would detect.
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

var errNotLog = errors.New("not a regular file or directory")

// openBelow opens a file below a directory. os.Root keeps it from reaching anything
// outside; an absolute link to a target below the directory is followed.
func openBelow(directory, name string) (*os.File, fs.FileInfo, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	name = filepath.FromSlash(strings.TrimPrefix(path.Clean("/"+name), "/"))
	if name == "" {
		name = "."
	}
	if real, err := filepath.EvalSymlinks(filepath.Join(directory, name)); err == nil {
		if base, err := filepath.EvalSymlinks(directory); err == nil {
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
		return nil, nil, errNotLog
	}
	f, err := root.Open(name)
	return f, fi, err
}

// withoutPath returns the message of an error without the path, which the client knows.
func withoutPath(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// listDirectory responds with links to the entries of a directory, as the kubelet does.
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
		page.WriteString(`<a href="` + html.EscapeString((&url.URL{Path: "./" + name}).String()) + `">` +
			html.EscapeString(name) + "</a>\n")
	}
	page.WriteString("</pre>\n")
	_, _ = io.WriteString(w, page.String()) // a client that has disconnected needs no response
}

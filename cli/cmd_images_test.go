package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/api"
)

// imageDaemon serves the images API. It calls the functions for each pull that does not
// return.
func imageDaemon(t *testing.T, slow ...func()) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	id := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	response := func(w http.ResponseWriter, list ...api.Image) { _ = json.NewEncoder(w).Encode(list) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /podstead/v1/images", func(w http.ResponseWriter, _ *http.Request) {
		response(w, api.Image{Name: "docker.io/library/a:1", ID: id, Size: 5 << 20, State: "unused", Pulled: time.Now(),
			LastUsed: time.Now().Add(-3 * time.Hour)},
			api.Image{Name: "b:1", ID: id, Size: 700, State: "used"},
			api.Image{Name: "c:1", Tags: []string{"c:1", "c:stable"}, ID: id, Size: 3 << 30, State: "wanted",
				Pulled: time.Now()},
			api.Image{Name: "d:1", ID: id, Size: 1500, State: "foreign"})
	})
	mux.HandleFunc("POST /podstead/v1/images/prune", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("dryRun") {
		case "true":
			response(w, api.Image{Name: "a:1", Tags: []string{"a:1", "a:2"}, Size: 5 << 20},
				api.Image{Name: "b:1", Size: 1 << 20})
		default:
			response(w, api.Image{Name: "a:1", Size: 5 << 20},
				api.Image{Name: "b:1", Size: 1 << 20, Error: "failed to remove image b:1: it is stuck"})
		}
	})
	mux.HandleFunc("POST /podstead/v1/images/pull", func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); q.Get("image") {
		case "slow:1":
			for _, notify := range slow {
				notify()
			}
			<-r.Context().Done()
		case "a:1":
			if q.Get("namespace") != "shop" || strings.Join(q["secret"], " ") != "one two" {
				http.Error(w, "unexpected query "+r.URL.RawQuery, http.StatusBadRequest)
				return
			}
			_ = json.NewEncoder(w).Encode(api.Image{Name: "docker.io/library/a:1", ID: id, Size: 5 << 20})
		default:
			http.Error(w, "cannot pull image: there is none", http.StatusBadGateway)
		}
	})
	mux.HandleFunc("POST /podstead/v1/images/load", func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil || string(data) == "bad" {
			http.Error(w, "the archive is cut short", http.StatusBadRequest)
			return
		}
		response(w, api.Image{Name: r.URL.Query().Get("name") + string(data), ID: id, Size: 5 << 20},
			api.Image{Name: "b:1", ID: id, Size: 700})
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return socket
}

func TestImagesList(t *testing.T) {
	out, _, err := execute(t, "", "images", "ls", "--api-socket", imageDaemon(t))
	want := `IMAGE                   ID             SIZE      STATE     LAST USED
docker.io/library/a:1   0123456789ab   5.0 MiB   unused    3h ago
b:1                     0123456789ab   700 B     used      now
c:1                     0123456789ab   3.0 GiB   wanted    never
c:stable                0123456789ab   3.0 GiB   wanted    never
d:1                     0123456789ab   1.5 KiB   foreign   <unknown>
`
	if err != nil || out != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, out, want)
	}
}

func TestImagesPrune(t *testing.T) {
	socket := imageDaemon(t)
	out, errs, err := execute(t, "", "images", "prune", "--dry-run", "--api-socket", socket)
	if err != nil || out != "would remove a:1, a:2 (5.0 MiB)\nwould remove b:1 (1.0 MiB)\n" ||
		errs != "would remove 2 images, 6.0 MiB\n" {
		t.Errorf("dry run: %v %q %q", err, out, errs)
	}
	out, errs, err = execute(t, "", "images", "prune", "--api-socket", socket)
	if Code(err) != 1 || !Silent(err) || out != "removed a:1 (5.0 MiB)\n" || !strings.Contains(errs, "it is stuck") {
		t.Errorf("prune: %v %q %q", err, out, errs)
	}
}

// Both lists of images show all tags of an image.
func TestGetImagesShowsAllTags(t *testing.T) {
	out, _, err := execute(t, "", "get", "images", "--api-socket", imageDaemon(t))
	if err != nil || !strings.Contains(out, "\nc:1,c:stable ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// withoutDuration replaces the duration at the end of each line.
func withoutDuration(out string) string {
	return regexp.MustCompile(`(?m) in [0-9][0-9.ms]*$`).ReplaceAllString(out, " in TIME")
}

func TestImagesPull(t *testing.T) {
	socket := imageDaemon(t)
	out, errs, err := execute(t, "", "images", "pull", "a:1", "--secret", "shop/one", "--secret", "shop/two",
		"--api-socket", socket)
	if err != nil || withoutDuration(out) != "pulled docker.io/library/a:1 (0123456789ab, 5.0 MiB) in TIME\n" ||
		errs != "pulling a:1\n" {
		t.Errorf("%v %q %q", err, out, errs)
	}
	if _, _, err := execute(t, "", "images", "pull", "b:1", "--api-socket", socket); err == nil ||
		err.Error() != "cannot pull image: there is none" {
		t.Errorf("error %v", err)
	}
	if _, _, err := execute(t, "", "images", "pull", "a:1", "--secret", "one", "--secret", "shop/two", "--api-socket",
		socket); err == nil || !strings.Contains(err.Error(), "one namespace") {
		t.Errorf("error %v", err)
	}
}

func TestImagesPullCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := imagesPullCommand()
	cmd.SetArgs([]string{"slow:1", "--api-socket", imageDaemon(t, cancel)})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(ctx)
	if err == nil || err.Error() != "pull of slow:1 canceled" || Code(err) != ExitInterrupted {
		t.Errorf("error %v", err)
	}
}

func TestImagesLoad(t *testing.T) {
	socket, dir := imageDaemon(t), t.TempDir()
	for name, text := range map[string]string{"a.tar": "-one", "bad.tar": "bad"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "a.tar")
	out, errs, err := execute(t, "-two", "images", "load", "--name", "a:1", file, "-", "--api-socket", socket)
	want := "loaded a:1-one (0123456789ab, 5.0 MiB) in TIME\nloaded b:1 (0123456789ab, 700 B) in TIME\n"
	if err != nil || withoutDuration(out) != want+strings.ReplaceAll(want, "one", "two") ||
		errs != "loading "+file+"\nloading -\n" {
		t.Errorf("%v %q %q", err, out, errs)
	}
	for name, want := range map[string]string{"bad.tar": "bad.tar: the archive is cut short", "none.tar": "no such file",
		"": "is a directory; load an OCI layout as a tar archive"} {
		if _, _, err := execute(t, "", "images", "load", filepath.Join(dir, name), "--api-socket", socket); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

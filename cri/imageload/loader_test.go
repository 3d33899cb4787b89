package imageload_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/cri/imageload"
	"github.com/podstead/podstead/cri/imagestore"
)

// An image that cannot be loaded is an input error, and the message states the
// remedy.
func TestLoadErrors(t *testing.T) {
	for name, tc := range map[string]struct{ runtime, want string }{
		"CRI-O":   {"cri-o", "podman load --input"},
		"Docker":  {"docker", "docker load --input"},
		"unknown": {"other", `runtime "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			fake := critest.New(t)
			fake.SetVersion(tc.runtime, "1.0", nil)
			socket := filepath.Join(t.TempDir(), "cri.sock")
			if err := fake.ServeUnix(socket); err != nil {
				t.Fatal(err)
			}
			client, err := cri.Dial(cri.Options{Endpoint: "unix://" + socket, Instance: "test"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			loader := imageload.New(imageload.Config{
				Client: client, Images: imagestore.Open(imagestore.Config{Runtime: client}),
				Temp:     archive.TempSpace{Dir: imageload.Dir(t.TempDir())},
				Imported: func(context.Context, string, string) { t.Error("an image was imported") },
			})
			_, err = loader.Load(t.Context(), strings.NewReader("no archive"), "")
			var input *imageload.InputError
			if !errors.As(err, &input) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error is %v, want an InputError with %q", err, tc.want)
			}
		})
	}
}

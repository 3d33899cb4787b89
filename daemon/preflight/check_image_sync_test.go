package preflight

import (
	"strings"
	"testing"
)

func TestImageSync(t *testing.T) {
	for _, tc := range []struct {
		name    string
		runtime Runtime
		want    string // empty for no finding
	}{
		{"1.6", Runtime{Name: "containerd", Version: "1.6.20~ds1"}, ""},
		{"1.7 before the setting", Runtime{Name: "containerd", Version: "1.7.13"}, ""},
		{"1.7", Runtime{Name: "containerd", Version: "1.7.24~ds1"}, `= true in [plugins."io.containerd.grpc.v1.cri"]`},
		{"2.x", Runtime{Name: "containerd", Version: "v2.1.0"}, `= true in [plugins."io.containerd.cri.v1.images"]`},
		{"set", Runtime{Name: "containerd", Version: "v2.1.0", Images: ImageStore{SyncsLayers: true}}, "containerd syncs the layers"},
		{"private", Runtime{Name: "containerd", Version: "v2.1.0", Private: true}, ""},
		{"CRI-O", Runtime{Name: "cri-o", Version: "1.30.0"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := imageSync(nil, &Settings{Runtime: tc.runtime})
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0].Message, tc.want)) {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
	for dump, want := range map[string]bool{
		"  image_pull_with_sync_fs = true\n": true, "image_pull_with_sync_fs = false": false, "sync_fs = true": false, "": false,
	} {
		if got := syncsLayers.MatchString(dump); got != want {
			t.Errorf("%q: %t", dump, got)
		}
	}
}

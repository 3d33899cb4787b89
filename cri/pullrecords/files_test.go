package pullrecords

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/internal/imagepolicy"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

// released returns a runtime with the image of the test data, its ID, and the records in a directory.
func released(t *testing.T, dir string, disk statefile.Disk) (*recordsHarness, string) {
	t.Helper()
	h := &recordsHarness{t: t, runtime: &runtime{}, dir: dir}
	id := h.runtime.addImage("x", "r.test/app:1")
	h.Records = Open(Config{Dir: dir, Images: h.runtime, Disk: disk})
	return h, id
}

func TestRecordFile(t *testing.T) {
	const image = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // the hash of x
	statefiletest.Store{
		Files: []string{"pulled/" + image + ".json"}, Before: "record.json", After: "record-after.json",
		Old:   `[{"uid":"uid-a","namespace":"a","name":"login"}]`,
		New:   `[{"uid":"uid-a","namespace":"a","name":"login"},{"uid":"uid-b","namespace":"b","name":"other"}]`,
		None:  `[]`,
		Rules: statefiletest.RulesOf(&recordFormat), Silent: true,
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			h, id := released(t, dir, disk)
			secrets := []Secret{}
			if found, err := h.load(id); err == nil && found != nil {
				for _, s := range found.Names[0].Secrets {
					secrets = append(secrets, s.Secret)
				}
			}
			text, err := json.Marshal(secrets)
			return string(text), err
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			h, _ := released(t, dir, disk)
			h.check("", "r.test/app:1", credential("uid-b", "b/other", "pass-a"))
			return nil
		},
	}.Run(t)
}

func TestIntentFile(t *testing.T) {
	const name = "c0e034d9acdffd5904e314aedd0772fb1fc4db2efe8f927145fc6077d4bd2f69" // the hash of r.test/app:1
	statefiletest.Store{
		Files: []string{"intents/" + name + ".json"}, Before: "intent.json", After: "intent-after.json",
		Old: "r.test/app:1 replaces x", New: "r.test/app:1 is new",
		Rules: statefiletest.RulesOf(&intentFormat), Silent: true,
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			h, id := released(t, dir, disk)
			switch in := h.intents[fileKey(canonical("r.test/app:1"))]; {
			case in == nil || in.Image == "":
				return "", nil
			case in.Before == bareID(id):
				return in.Image + " replaces x", nil
			default:
				return in.Image + " is new", nil
			}
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			h, id := released(t, dir, disk)
			h.Forget(h.Mark(), id)
			return nil
		},
	}.Run(t)
}

// A record or an intent that was moved aside does not make its image look preloaded, until the owner of the node loads
// it.
func TestMovedAside(t *testing.T) {
	for _, dir := range []string{"pulled", "intents"} {
		for _, content := range []string{"", `{"version":99}`} {
			h := newRecordsHarness(t)
			of := h.pull("x", "r.test/app:1", tenantA)
			if dir == "intents" {
				h = newRecordsHarness(t)
				of = canonical("r.test/app:1")
				if _, err := h.Begin(t.Context(), "r.test/app:1"); err != nil {
					t.Fatal(err)
				}
				h.runtime.addImage("x", "r.test/app:1")
			}
			if err := os.WriteFile(h.path(dir, of), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				h.restart()
				for range 2 {
					if got := h.check(imagepolicy.NeverVerifyPreloaded, "r.test/app:1", tenantA); got.Allowed() {
						t.Errorf("with %q in %s: %s", content, dir, got)
					}
				}
			}
			h.Preloaded("r.test/app:1", h.runtime.addImage("x"))
			h.restart()
			h.mustBe(PolicyAllows, "r.test/app:1")
			if files, err := filepath.Glob(filepath.Join(h.dir, "*", "*")); err != nil || len(files) > 0 {
				t.Errorf("files are left: %v (%v)", files, err)
			}
		}
	}
}

package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestKeyFile(t *testing.T) {
	store := func(dir string, disk statefile.Disk) Store {
		return Store{Dir: dir, Name: "kubelet-client", Disk: disk}
	}
	statefiletest.Store{
		Files: []string{"kubelet-client.key.tmp"}, Before: "request.key",
		Old: "released", New: "new", None: "new", Rules: statefiletest.RulesOf(&keyFormat), Strict: true,
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			key, err := store(dir, disk).key()
			if err != nil {
				return "", err
			}
			released, err := os.ReadFile(filepath.Join("testdata", "request.key"))
			if err != nil {
				t.Fatal(err)
			}
			if text, err := keyPEM(key); err != nil || string(text) != string(released) {
				return "new", err
			}
			return "released", nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				return err
			}
			return store(dir, disk).pending().Save(key)
		},
	}.Run(t)
}

package pki

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

// which reports whether a certificate is that of the test data, which a released podstead has written.
func which(t *testing.T, name string, certPEM []byte) string {
	t.Helper()
	if string(certPEM) == string(testdata(t, name)) {
		return "released"
	}
	return "new"
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAuthorityFile(t *testing.T) {
	statefiletest.Store{
		Files: []string{"servers.key"}, Before: "servers.key", Other: map[string]string{"servers.crt": "servers.crt"},
		Old: "released", New: "new", None: "new", Rules: statefiletest.RulesOf(&authorityFormat),
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			a, err := OpenAuthority(dir, "servers", disk)
			if err != nil {
				return "", err
			}
			return which(t, "servers.crt", a.PEM()), nil
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			if _, err := OpenAuthority(dir, "servers", disk); err != nil {
				return err
			}
			_, err := RenewAuthority(dir, "servers", disk)
			return err
		},
	}.Run(t)
}

func TestServingFile(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	open := func(t *testing.T, dir string, disk statefile.Disk) *Serving {
		t.Helper()
		a, err := parseAuthority(testdata(t, "servers.crt"), testdata(t, "servers.key"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewServing(ServingConfig{Dir: dir, Authority: a, Disk: disk})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	statefiletest.Store{
		Files: []string{"server.key"}, Before: "server.key", Other: map[string]string{"server.crt": "server.crt"},
		Old: "released", New: "new", None: "new", Rules: statefiletest.RulesOf(&servingFormat), Strict: true, Silent: true,
		Read: func(t *testing.T, dir string, disk statefile.Disk) (string, error) {
			s := open(t, dir, disk)
			if _, err := s.ownCertificate(now); err != nil {
				return "", err
			}
			certPEM, err := os.ReadFile(filepath.Join(dir, "server.crt"))
			if err != nil {
				t.Error(err)
			}
			return which(t, "server.crt", certPEM), nil
		},
		Change: func(t *testing.T, dir string, disk statefile.Disk) error {
			s := open(t, dir, disk)
			_, err := s.ownCertificate(now.Add(servingValidity))
			return err
		},
	}.Run(t)
}

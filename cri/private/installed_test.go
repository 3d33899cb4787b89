package private

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A runtime whose service was installed a moment ago is waited for: a package manager starts it after
// it has unpacked all packages.
func TestAwaitInstallation(t *testing.T) {
	installation := func(t *testing.T) Installation {
		dir := t.TempDir()
		i := Installation{Booted: filepath.Join(dir, "booted"),
			UnitDirs: []string{filepath.Join(dir, "etc"), filepath.Join(dir, "lib")},
			Services: []string{"containerd.service", "crio.service"}, Sockets: []string{filepath.Join(dir, "a.sock")},
			Uptime: func() time.Duration { return time.Hour }}
		for _, d := range append(i.UnitDirs, i.Booted) {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return i
	}
	install := func(t *testing.T, i Installation) {
		t.Helper()
		// The archive of a package has older times.
		file := filepath.Join(i.UnitDirs[1], "crio.service")
		old := time.Now().Add(-1000 * time.Hour)
		if err := os.WriteFile(file, []byte("[Service]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)

	t.Run("it answers later", func(t *testing.T) {
		i := installation(t)
		install(t, i)
		waiting := make(chan struct{})
		lines := slog.New(slog.NewTextHandler(signal(func() { close(waiting) }), nil))
		type result struct {
			endpoint string
			found    bool
		}
		got := make(chan result, 1)
		go func() {
			endpoint, found := i.Await(t.Context(), lines)
			got <- result{endpoint, found}
		}()
		<-waiting
		ln, err := net.Listen("unix", i.Sockets[0])
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if r := <-got; r != (result{"unix://" + i.Sockets[0], true}) {
			t.Errorf("got %+v", r)
		}
	})
	for name, c := range map[string]struct {
		prepare func(t *testing.T, i *Installation)
	}{
		"not installed": {func(t *testing.T, i *Installation) {
			must(t, os.Remove(filepath.Join(i.UnitDirs[1], "crio.service")))
		}},
		"systemd is not the init": {func(t *testing.T, i *Installation) { must(t, os.Remove(i.Booted)) }},
		"masked": {func(t *testing.T, i *Installation) {
			must(t, os.Symlink("/dev/null", filepath.Join(i.UnitDirs[0], "crio.service")))
		}},
		"masked by an empty file": {func(t *testing.T, i *Installation) {
			must(t, os.WriteFile(filepath.Join(i.UnitDirs[0], "crio.service"), nil, 0o644))
		}},
		"not one of the runtimes": {func(t *testing.T, i *Installation) { i.Services = i.Services[:1] }},
	} {
		t.Run(name, func(t *testing.T) {
			i := installation(t)
			install(t, i)
			if got := i.recent(time.Now()); got != "crio.service" {
				t.Fatalf("recent = %q before", got)
			}
			c.prepare(t, &i)
			if endpoint, found := i.Await(t.Context(), log); found {
				t.Errorf("found %s", endpoint)
			}
		})
	}
	t.Run("unpacked at the boot", func(t *testing.T) {
		i := installation(t)
		install(t, i)
		i.Uptime = func() time.Duration { return bootTime }
		if got := i.recent(time.Now()); got != "" {
			t.Error(got)
		}
	})
	t.Run("installed long ago", func(t *testing.T) {
		i := installation(t)
		install(t, i)
		for _, now := range []time.Time{time.Now().Add(2 * installationTime), time.Now().Add(-time.Hour)} {
			if got := i.recent(now); got != "" {
				t.Errorf("at %v: %s", now, got)
			}
		}
	})
}

// signal calls itself at each write.
type signal func()

func (s signal) Write(p []byte) (int, error) {
	s()
	return len(p), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

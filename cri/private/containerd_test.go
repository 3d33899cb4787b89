package private

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/unwritten"
)

// TestMain lets the test binary act as containerd: it listens on the socket in
// its config until it is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "--config" {
		playContainerd(os.Args[2])
	}
	os.Exit(m.Run())
}

func playContainerd(config string) {
	text, err := os.ReadFile(config)
	if err != nil {
		os.Exit(1)
	}
	socket := regexp.MustCompile(`address = "(.*)"`).FindStringSubmatch(string(text))[1]
	if _, set := os.LookupEnv("NOTIFY_SOCKET"); set {
		os.Exit(3)
	}
	_ = os.Remove(socket)
	ln, err := net.Listen("unix", socket)
	if err != nil {
		os.Exit(2)
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			os.Exit(4)
		}
		_ = c.Close()
	}
}

// testbed returns a config whose files all exist.
func testbed(t *testing.T) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "pc") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range neededPlugins {
		if err := os.WriteFile(filepath.Join(bin, p), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Config{Root: filepath.Join(dir, "r"), State: filepath.Join(dir, "s"), CNIConfDir: filepath.Join(dir, "none"),
		CNIBinDirs: []string{"/nonexistent", bin}}
}

func listenerOf(t *testing.T, c Config) int {
	t.Helper()
	conn, err := dial(t.Context(), c.Socket())
	if err != nil {
		t.Fatalf("nothing listens: %v", err)
	}
	defer conn.Close()
	pid, err := peer(conn)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestRunKeepsOneContainerd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nonexistent")
	cfg := testbed(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	first := New(cfg, exe, quiet())
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := listenerOf(t, cfg)
	last := pid
	t.Cleanup(func() { _ = syscall.Kill(last, syscall.SIGKILL) })

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("Run = %v", err)
	}
	if got := listenerOf(t, cfg); got != pid {
		t.Fatalf("containerd did not survive its parent: pid %d, then %d", pid, got)
	}

	// A later podstead finds it by its socket, starts no second one, and
	// still notices its exit though it is not its parent.
	second := New(cfg, "/nonexistent/containerd", quiet())
	if err := second.Start(t.Context()); err != nil {
		t.Fatalf("Start with a running containerd: %v", err)
	}
	second.binary = exe
	ctx2, cancel2 := context.WithCancel(t.Context())
	go func() { done <- second.Run(ctx2) }()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if conn, err := dial(t.Context(), cfg.Socket()); err == nil {
			last, err = peer(conn)
			_ = conn.Close()
			if err != nil {
				t.Fatal(err)
			}
			if last != pid {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("a killed containerd was not started again")
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel2()
	if err := <-done; err != nil {
		t.Fatalf("Run = %v", err)
	}
	if sid, err := syscall.Getpgid(last); err != nil || sid != last {
		t.Errorf("the containerd is in process group %d (%v), want one of its own, %d", sid, err, last)
	}
}

func TestStartErrorNamesTheLog(t *testing.T) {
	cfg := testbed(t)
	err := New(cfg, "/bin/false", quiet()).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), cfg.LogFile()) {
		t.Errorf("Start = %v, want the path of the log", err)
	}
}

func TestMissingPluginsAreNamedWithTheRemedy(t *testing.T) {
	cfg := testbed(t)
	cfg.CNIBinDirs = []string{t.TempDir()}
	err := New(cfg, "/bin/false", quiet()).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "containernetworking-plugins") ||
		!strings.Contains(err.Error(), cfg.CNIBinDirs[0]) {
		t.Errorf("Start = %v", err)
	}
}

func TestHostNetworkConfigIsPreferred(t *testing.T) {
	cfg := testbed(t)
	own, err := cfg.cniConf("")
	if err != nil || own != cfg.ownCNIConf() {
		t.Fatalf("cniConf = %q, %v; want podstead's own", own, err)
	}
	before, err := os.ReadFile(filepath.Join(own, "10-podstead.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.cniConf(""); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(filepath.Join(own, "10-podstead.conflist")); string(after) != string(before) {
		t.Error("the network changed although running pods have addresses in it")
	}
	if err := os.MkdirAll(cfg.CNIConfDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.CNIConfDir, "README"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if dir, _ := cfg.cniConf(""); dir != own {
		t.Errorf("a directory without a network is used: %q", dir)
	}
	if err := os.WriteFile(filepath.Join(cfg.CNIConfDir, "10-x.conflist"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if dir, _ := cfg.cniConf(""); dir != cfg.CNIConfDir {
		t.Errorf("cniConf = %q, want the host's %q", dir, cfg.CNIConfDir)
	}
}

// A network of an earlier version gets the plugin bandwidth when it is installed, keeps all else,
// and loses the plugin when that has gone, so that pods still start. Another text is left alone.
func TestNetworkFollowsTheBandwidthPlugin(t *testing.T) {
	cfg, bin := testbed(t), t.TempDir()
	own, err := cfg.cniConf(bin)
	if err != nil {
		t.Fatal(err)
	}
	file, plugin := filepath.Join(own, networkFile), filepath.Join(bin, "bandwidth")
	read := func() string {
		t.Helper()
		if _, err := cfg.cniConf(bin); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !json.Valid(text) {
			t.Fatalf("%v: %s", err, text)
		}
		return string(text)
	}
	without := read()
	if strings.Contains(without, "bandwidth") {
		t.Fatalf("a plugin that is not installed: %s", without)
	}
	if err := os.WriteFile(plugin, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	with := read()
	if want := `"capabilities": {"bandwidth": true}`; !strings.Contains(with, want) ||
		strings.Replace(with, bandwidthPlugin, "", 1) != without {
		t.Errorf("%q is not all that was added: %s", want, with)
	}
	if text, err := NetworkConfig("/nonexistent", bin); err != nil || !bytes.Contains(text, []byte("bandwidth")) {
		t.Errorf("a new network: %s (%v)", text, err)
	}
	if err := os.Remove(plugin); err != nil {
		t.Fatal(err)
	}
	if again := read(); again != without {
		t.Errorf("without the plugin: %s", again)
	}
	if err := errors.Join(os.WriteFile(file, []byte("{}"), 0o644), os.WriteFile(plugin, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	if text := read(); text != "{}" {
		t.Errorf("an edited network became %s", text)
	}
}

func TestFreeSubnetAvoidsHostNetworks(t *testing.T) {
	addr := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	for _, c := range []struct {
		addrs []net.Addr
		want  string
	}{
		{nil, "10.88.0.0/16"},
		{[]net.Addr{addr("10.88.0.1/24")}, "10.89.0.0/16"},
		{[]net.Addr{addr("10.88.3.4/32"), addr("10.89.0.1/16"), addr("192.168.1.2/24")}, "10.90.0.0/16"},
	} {
		if got, err := freeSubnet(c.addrs); err != nil || got != c.want {
			t.Errorf("freeSubnet(%v) = %q, %v; want %q", c.addrs, got, err, c.want)
		}
	}
	if got, ok := subnetOf([]net.Addr{addr("fe80::1/64"), addr("10.88.0.1/16")}); !ok || got != "10.88.0.0/16" {
		t.Errorf("subnetOf = %q, %v; want that of the IPv4 address", got, ok)
	}
	if got, ok := subnetOf([]net.Addr{addr("fe80::1/64")}); ok {
		t.Errorf("subnetOf without an IPv4 address = %q", got)
	}
	if _, err := freeSubnet([]net.Addr{addr("10.1.2.3/8")}); err == nil {
		t.Error("freeSubnet found a network inside the host's own")
	}
}

func TestRender(t *testing.T) {
	cfg := Config{Root: "/r", State: "/s", PauseImage: "img:1"}
	for _, restrict := range []bool{true, false} {
		text := cfg.render("/bin", "/conf", restrict, false)
		for _, want := range []string{`address = "/s/containerd.sock"`, `sandbox_image = "img:1"`, `conf_dir = "/conf"`,
			`root = "/r/root"`, `"io.containerd.timeout.shim.load" = "1m"`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("config lacks %s:\n%s", want, text)
			}
		}
		if got := strings.Contains(string(text), "restrict_oom_score_adj = true"); got != restrict {
			t.Errorf("restrict_oom_score_adj is set: %v, want %v", got, restrict)
		}
	}
}

func TestFindFirstAnsweringSocket(t *testing.T) {
	dir := t.TempDir()
	alive, stale := filepath.Join(dir, "b.sock"), filepath.Join(dir, "a.sock")
	ln, err := net.Listen("unix", alive)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, found := Find(t.Context(), []string{stale, alive}); !found || got != "unix://"+alive {
		t.Errorf("Find = %q, %v", got, found)
	}
	if got, found := Find(t.Context(), []string{stale}); found {
		t.Errorf("Find = %q though nothing listens", got)
	}
}

func TestChildEnvPrefersItsOwnShim(t *testing.T) {
	got := childEnv([]string{"A=b", "PATH=/usr/bin:/bin", "NOTIFY_SOCKET=/x", "WATCHDOG_USEC=1", "WATCHDOG_PID=2"},
		"/opt/c")
	if want := []string{"A=b", "PATH=/opt/c:/usr/bin:/bin"}; !slices.Equal(got, want) {
		t.Errorf("childEnv = %q, want %q", got, want)
	}
}

// A containerd that takes minutes to start, on a slow disk, must not get a
// second one next to it every minute.
func TestSlowContainerdStart(t *testing.T) {
	cfg := testbed(t)
	marker := filepath.Join(filepath.Dir(cfg.Root), "started")
	binary := filepath.Join(filepath.Dir(cfg.Root), "containerd")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n: > "+marker+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := cfg.prepare(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := New(cfg, binary, quiet())
		c.ended = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	if _, err := os.Stat(marker); err == nil {
		t.Error("a second containerd was started next to one that is starting")
	}
}

// A root directory that takes no file does not keep the containerd from starting, and
// what could not be written is reported.
func TestStartWithoutWritableRoot(t *testing.T) {
	cfg := testbed(t)
	cfg.Disk.Unwritten = unwritten.New()
	// A directory is where each file would be.
	for _, dir := range []string{cfg.rootFile(), cfg.LogFile()} {
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg.CNIConfDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cfg.CNIConfDir, "10-x.conflist"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := New(cfg, exe, quiet()).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := listenerOf(t, cfg)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if list := cfg.Disk.Unwritten.List(); len(list) != 1 || list[0].Path != cfg.rootFile() {
		t.Errorf("unwritten files: %v", list)
	}
}

// A containerd that exits because its disk is full is started again later; the daemon goes on.
func TestStartOnFullDisk(t *testing.T) {
	cfg := testbed(t)
	cfg.Disk.Unwritten = unwritten.New()
	// The file that the daemon writes to find out cannot be written.
	if err := os.MkdirAll(filepath.Join(cfg.Root, "write-test", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := New(cfg, "/bin/false", quiet()).Start(t.Context()); err != nil {
		t.Errorf("Start = %v", err)
	}
	if list := cfg.Disk.Unwritten.List(); !slices.ContainsFunc(list,
		func(f unwritten.File) bool { return f.Path == cfg.Root }) {
		t.Errorf("unwritten files: %v", list)
	}
}

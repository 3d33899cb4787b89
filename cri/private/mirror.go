package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// registryLink is the directory of registry settings in containerd's config: a
// link to CertsDir, or to mirrorDir while images are loaded. Some versions
// support only one directory, and the administrator's files are never modified.
func (c Config) registryLink() string { return filepath.Join(c.State, "registries") }

// mirrorDir has links to everything in CertsDir except the host of the mirror.
func (c Config) mirrorDir() string { return filepath.Join(c.State, "offers.d") }

// Mirror is a registry that temporarily serves images of another one.
type Mirror struct {
	// URL is http://HOST:PORT.
	URL string
	// Header and Value are sent with each request.
	Header, Value string
}

// AddMirror makes pulls from a registry host (with its port) try the mirror
// first, until remove is called. Images that the mirror does not have come from
// their usual place. There is one mirror at a time.
func (c *Containerd) AddMirror(host string, o Mirror) (remove func(), err error) {
	if text, err := os.ReadFile(c.cfg.file()); err != nil || !strings.Contains(string(text), c.cfg.registryLink()) {
		return nil, fmt.Errorf("the private containerd was started by an earlier podstead, which could not load images; "+
			"stop it once (its socket is %s): it is restarted, and containers keep running", c.cfg.Socket())
	}
	if err := c.cfg.writeMirror(host, o); err != nil {
		return nil, errors.Join(fmt.Errorf("failed to add the image mirror to the private containerd: %w", err),
			c.cfg.removeMirror())
	}
	// A link that is left behind points to a mirror that does not respond, and
	// containerd continues with the next host; the next AddMirror or Start
	// removes it.
	return func() { _ = c.cfg.removeMirror() }, nil
}

// removeMirror removes a mirror, also one of a daemon that was killed while it
// used it.
func (c Config) removeMirror() error {
	if err := replaceLink(c.registryLink(), c.CertsDir()); err != nil {
		return fmt.Errorf("failed to link containerd's registry settings: %w", err)
	}
	return os.RemoveAll(c.mirrorDir())
}

func replaceLink(path, target string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// writeMirror creates the directory of a mirror and points containerd to it.
func (c Config) writeMirror(host string, o Mirror) error {
	theirs, text, err := c.hostsFile(host)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(c.mirrorDir()); err != nil {
		return err
	}
	if err := os.Mkdir(c.mirrorDir(), 0o700); err != nil {
		return err
	}
	if err := linkAll(c.CertsDir(), c.mirrorDir(), host, hostDirectory(host)); err != nil {
		return err
	}
	dir := filepath.Join(c.mirrorDir(), hostDirectory(host))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if theirs != "" {
		if err := linkAll(theirs, dir, hostsFile); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, hostsFile), []byte(withMirror(text, o)), 0o600); err != nil {
		return err
	}
	return replaceLink(c.registryLink(), c.mirrorDir())
}

// linkAll links everything in one directory into another, with exceptions.
func linkAll(from, to string, but ...string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(but, e.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

const hostsFile = "hosts.toml"

// hostDirectory returns containerd's name of the directory for a host: not every
// file system allows a colon.
func hostDirectory(host string) string {
	if name, port, ok := strings.Cut(host, ":"); ok {
		return name + "_" + port + "_"
	}
	return host
}

// hostsFile returns the administrator's hosts file for a host, and its directory;
// both empty without one. The order of directories is containerd's.
func (c Config) hostsFile(host string) (dir, text string, err error) {
	for _, name := range []string{hostDirectory(host), host, "_default"} {
		dir := filepath.Join(c.CertsDir(), name)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, hostsFile))
		if err != nil && !os.IsNotExist(err) {
			return "", "", fmt.Errorf("failed to read the registry settings of %s: %w", host, err)
		}
		return dir, string(data), nil
	}
	return "", "", nil
}

// withMirror returns a hosts file with a mirror before all hosts: containerd
// tries them in order. Settings before the first table belong to the file itself.
func withMirror(text string, o Mirror) string {
	offer := fmt.Sprintf("[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\"]\n  [host.%[1]q.header]\n    %[2]s = "+
		"%[3]q\n", o.URL, o.Header, o.Value)
	var head, rest strings.Builder
	inTable := false
	for line := range strings.Lines(text) {
		inTable = inTable || strings.HasPrefix(strings.TrimSpace(line), "[")
		if inTable {
			rest.WriteString(line)
		} else {
			head.WriteString(line)
		}
	}
	begin := head.String()
	if begin != "" && !strings.HasSuffix(begin, "\n") {
		begin += "\n"
	}
	return begin + offer + rest.String()
}

package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// registries is the folder of registry settings that containerd is told of: a
// link to CertsDir, or for as long as images are loaded to offersDir. Some
// versions look into one folder alone, and nothing of a person's is ever touched.
func (c Config) registryLink() string { return filepath.Join(c.State, "registries") }

// offersDir has links to all of CertsDir, but for the host of an offer.
func (c Config) mirrorDir() string { return filepath.Join(c.State, "offers.d") }

// Offer is where images of a registry can be had for a while.
type Mirror struct {
	// URL is http://HOST:PORT.
	URL string
	// Header and Value go with each request.
	Header, Value string
}

// Offer makes pulls from a registry host (with its port) ask the offer first,
// until withdraw is called. What it does not have comes from where it always
// comes from. There is one offer at a time.
func (c *Containerd) AddMirror(host string, o Mirror) (withdraw func(), err error) {
	if text, err := os.ReadFile(c.cfg.file()); err != nil || !strings.Contains(string(text), c.cfg.registryLink()) {
		return nil, fmt.Errorf("the private containerd was started by an earlier podstead, which could not load images; stop it once (its socket is %s): it is restarted, and containers keep running", c.cfg.Socket())
	}
	if err := c.cfg.writeMirror(host, o); err != nil {
		return nil, errors.Join(fmt.Errorf("failed to add the image mirror to the private containerd: %w", err), c.cfg.removeMirror())
	}
	// A link that stays leads to where nobody answers, and containerd goes on to
	// the next host; the next offer or start takes it away.
	return func() { _ = c.cfg.removeMirror() }, nil
}

// withdraw ends an offer, that of a daemon too that was ended in the middle of it.
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

// offer makes the folder of an offer and leads containerd there.
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

// linkAll makes links in a folder to all of another, but for some.
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

// hostFolder is containerd's name of the folder for a host: a colon is not for
// file names everywhere.
func hostDirectory(host string) string {
	if name, port, ok := strings.Cut(host, ":"); ok {
		return name + "_" + port + "_"
	}
	return host
}

// hostsFile is the hosts file that a person wrote for a host, and its folder;
// both empty without one. The order of folders is containerd's.
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

// offered is a hosts file with an offer before all hosts: containerd tries them
// in their order. What stands before the first table belongs to the file itself.
func withMirror(text string, o Mirror) string {
	offer := fmt.Sprintf("[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\"]\n  [host.%[1]q.header]\n    %[2]s = %[3]q\n", o.URL, o.Header, o.Value)
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

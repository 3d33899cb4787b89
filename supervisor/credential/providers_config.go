package credential

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The accepted versions of the kubelet's configuration and of the plugins' API.
var (
	configVersions = []string{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1",
		"kubelet.config.k8s.io/v1alpha1"}
	pluginVersions = []string{"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1beta1",
		"credentialprovider.kubelet.k8s.io/v1alpha1"}
)

// providersConfig is the kubelet's CredentialProviderConfig.
type providersConfig struct {
	metav1.TypeMeta `json:",inline"`
	Providers       []providerConfig `json:"providers"`
}

type providerConfig struct {
	Name                 string           `json:"name"`
	MatchImages          []string         `json:"matchImages"`
	DefaultCacheDuration *metav1.Duration `json:"defaultCacheDuration"`
	APIVersion           string           `json:"apiVersion"`
	Args                 []string         `json:"args"`
	Env                  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	TokenAttributes map[string]any `json:"tokenAttributes"`
}

// ReadProviders reads the kubelet's CredentialProviderConfig, a file or a directory of
// them; the plugins are programs in binDir. The error names all faults.
func ReadProviders(config, binDir string) (*Providers, error) {
	files := []string{config}
	info, err := os.Stat(config)
	if err != nil {
		return nil, fmt.Errorf("failed to read the credential provider config: %w", err)
	}
	if info.IsDir() {
		if files, err = configFiles(config); err != nil {
			return nil, err
		}
	}
	p := newProviders()
	var errs []error
	for _, file := range files {
		if err := p.read(file, binDir); err != nil {
			errs = append(errs, err)
		}
	}
	return p, errors.Join(errs...)
}

// configFiles returns the config files of a directory, sorted by name.
func configFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("failed to read the credential provider config: %w", err)
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, ext) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s contains no credential provider config; its name must end in .yaml, .yml or .json", dir)
	}
	return files, nil
}

func (p *Providers) read(file, binDir string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("failed to read the credential provider config: %w", err)
	}
	var c providersConfig
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if c.Kind != "CredentialProviderConfig" || !slices.Contains(configVersions, c.APIVersion) {
		return fmt.Errorf("%s: apiVersion %q and kind %q; want %s and CredentialProviderConfig", file, c.APIVersion, c.Kind,
			configVersions[0])
	}
	if len(c.Providers) == 0 {
		return fmt.Errorf("%s: providers: at least one is required", file)
	}
	var errs []error
	for i := range c.Providers {
		made, faults := c.Providers[i].provider(binDir)
		if slices.ContainsFunc(p.all, func(o *provider) bool { return o.name == made.name }) {
			faults = append(faults, fmt.Errorf("name: duplicate %q", made.name))
		}
		for _, fault := range faults {
			errs = append(errs, fmt.Errorf("%s: providers[%d].%w", file, i, fault))
		}
		p.all = append(p.all, made)
	}
	return errors.Join(errs...)
}

// provider validates a provider. Each fault begins with the field's name.
func (c *providerConfig) provider(binDir string) (*provider, []error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	p := &provider{name: c.Name, program: filepath.Join(binDir, c.Name), args: c.Args, version: c.APIVersion}
	if c.Name == "" || c.Name == "." || c.Name == ".." || strings.ContainsAny(c.Name, "/ ") {
		fault("name: %q is not the name of a program in %s", c.Name, binDir)
	} else if info, err := os.Stat(p.program); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		fault("name: %s is not an executable file", p.program)
	}
	if len(c.MatchImages) == 0 {
		fault("matchImages: at least one is required, such as registry.example.com")
	}
	for i, text := range c.MatchImages {
		m, err := parsePattern(text)
		if err != nil {
			fault("matchImages[%d]: %q: %w", i, text, err)
		}
		p.images = append(p.images, m)
	}
	switch {
	case c.DefaultCacheDuration == nil:
		fault("defaultCacheDuration: required, such as 12h; 0s disables caching")
	case c.DefaultCacheDuration.Duration < 0:
		fault("defaultCacheDuration: %s is negative", c.DefaultCacheDuration.Duration)
	default:
		p.defaultTTL = c.DefaultCacheDuration.Duration
	}
	if !slices.Contains(pluginVersions, c.APIVersion) {
		fault("apiVersion: %q: want %s", c.APIVersion, pluginVersions[0])
	}
	names := map[string]bool{}
	for i, e := range c.Env {
		if e.Name == "" || strings.Contains(e.Name, "=") || names[e.Name] {
			fault("env[%d].name: %q is empty, contains =, or is a duplicate", i, e.Name)
		}
		names[e.Name] = true
		p.env = append(p.env, e.Name+"="+e.Value)
	}
	if c.TokenAttributes != nil {
		fault("tokenAttributes: unsupported, as static pods have no service account tokens; remove the field")
	}
	return p, faults
}

// maxTTL limits how long a response is cached, whatever it states: time.Time must be
// able to hold the end.
const maxTTL = 10 * 365 * 24 * time.Hour

package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podstead/podstead/cri"
)

// Keyring holds credentials by the images that they are for. The zero value
// holds none.
type Keyring struct {
	entries []entry // the most specific first
}

type entry struct {
	pattern    pattern
	credential cri.Credential
}

// Lookup are the credentials for an image, the most specific first. The image
// is a reference as ParseImage has it.
func (k Keyring) Lookup(image Image) []cri.Credential {
	var found []cri.Credential
	for _, e := range k.entries {
		if e.pattern.matches(image) && !slices.Contains(found, e.credential) {
			found = append(found, e.credential)
		}
	}
	return found
}

// login is an entry of docker's files, of Secrets and of plugins' answers.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// errNoJSON tells of a fault without a word of the text: it may be a secret.
var errNoJSON = errors.New("is not JSON as docker login writes it")

// ParseDockerConfig reads a config.json, or the Secret of such a one. What is
// wrong with an entry is an error beside the keyring of the others.
func ParseDockerConfig(text []byte, origin string) (Keyring, error) {
	var file struct {
		Auths map[string]login `json:"auths"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return Keyring{}, fmt.Errorf("%s %w", origin, errNoJSON)
	}
	return newKeyring(file.Auths, origin)
}

// ParseDockercfg reads the older .dockercfg, or the Secret of such a one.
func ParseDockercfg(text []byte, origin string) (Keyring, error) {
	var logins map[string]login
	if err := json.Unmarshal(text, &logins); err != nil {
		return Keyring{}, fmt.Errorf("%s %w", origin, errNoJSON)
	}
	return newKeyring(logins, origin)
}

func newKeyring(logins map[string]login, origin string) (Keyring, error) {
	var k Keyring
	var errs []error
	// Backwards by text, as the kubelet has it, the longer of two that begin
	// alike comes first.
	keys := slices.Sorted(maps.Keys(logins))
	slices.Reverse(keys)
	for _, key := range keys {
		credential, err := logins[key].credential(origin)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: entry %q: %w", origin, key, err))
			continue
		}
		p, err := parsePattern(key)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: entry %q: %w", origin, key, err))
			continue
		}
		// One without a word is docker's note that a helper has it.
		if credential != (cri.Credential{Origin: origin}) {
			k.entries = append(k.entries, entry{p, credential})
		}
	}
	return k, errors.Join(errs...)
}

func (l login) credential(origin string) (cri.Credential, error) {
	c := cri.Credential{
		Origin: origin, Username: l.Username, Password: l.Password,
		IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken,
	}
	if l.Auth == "" {
		return c, nil
	}
	// Some write it without padding.
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(l.Auth), "="))
	if err != nil {
		return c, errors.New("auth is not base64")
	}
	user, password, found := strings.Cut(string(text), ":")
	if !found {
		return c, errors.New("auth is not the base64 of USER:PASSWORD")
	}
	c.Username, c.Password = user, strings.Trim(password, "\x00")
	return c, nil
}

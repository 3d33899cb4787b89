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

// Keyring holds credentials with the patterns of the images that they match. The zero
// value is empty.
type Keyring struct {
	entries []entry // the most specific first
}

type entry struct {
	pattern    pattern
	credential cri.Credential
}

// Lookup returns the credentials for an image, the most specific first.
func (k Keyring) Lookup(image Image) []cri.Credential {
	var found []cri.Credential
	for _, e := range k.entries {
		if e.pattern.matches(image) && !slices.Contains(found, e.credential) {
			found = append(found, e.credential)
		}
	}
	return found
}

// login is an entry of docker's files, of Secrets and of responses of plugins.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// errNoJSON does not quote the text, which may be a secret.
var errNoJSON = errors.New("is not JSON in the format of docker login")

// ParseDockerConfig parses a config.json, or a Secret with its content. With an error
// about some entries, it also returns the keyring of the others.
func ParseDockerConfig(text []byte, origin string) (Keyring, error) {
	var file struct {
		Auths map[string]login `json:"auths"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return Keyring{}, fmt.Errorf("%s %w", origin, errNoJSON)
	}
	return newKeyring(file.Auths, origin)
}

// ParseDockercfg parses the older .dockercfg, or a Secret with its content, in the
// same way.
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
	// In descending order, as in the kubelet, the longer of two keys with a common
	// prefix comes first.
	keys := slices.Sorted(maps.Keys(logins))
	slices.Reverse(keys)
	for i, key := range keys {
		credential, err := logins[key].credential(origin)
		var p pattern
		if err == nil {
			p, err = parsePattern(key)
		}
		if err != nil {
			// The error becomes an event, whose readers must not see the registries of a
			// Secret.
			errs = append(errs, fmt.Errorf("%s: entry %d of %d, in the order of the registries' names: %w", origin, len(keys)-i,
				len(keys), err))
			continue
		}
		// An empty entry is docker's mark for a credential that a helper stores.
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
	// Some programs write it without padding.
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

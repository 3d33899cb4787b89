package pullrecords

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/distribution/reference"
)

// Limits of one record. What exceeds them is forgotten, the oldest first, and has to be
// verified again. The number of Secrets is the kubelet's limit.
const (
	recordVersion = 1
	maxNames      = 32
	maxSecrets    = 100
	// maxFile is the size in bytes above which a file counts as damaged. A record at
	// its limits with the longest names has about 2 MiB.
	maxFile = 4 << 20
)

// Credential identifies a login without revealing it.
type Credential struct {
	// Secret is the Secret with the login; the zero value stands for the node's own
	// logins, and for none.
	Secret Secret
	// Sum is a hash of the login. Only a salted hash of it is stored.
	Sum [sha256.Size]byte
}

// Secret identifies a Secret. UID is empty for one of a manifest.
type Secret struct {
	UID       string `json:"uid,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// record is the file about one image.
type record struct {
	Version int `json:"version"`
	// Image is the runtime's ID of the image, without the name of the hash.
	Image string `json:"image"`
	// Salt is the salt of the hashes, random for each record.
	Salt string `json:"salt"`
	// Names reports for each repository who may use the image by that name; the one that
	// was added first comes first. It is empty if the image was pulled with unknown
	// credentials.
	Names []access `json:"names,omitempty"`
}

// access is who may use an image by one name.
type access struct {
	// Name is a full reference without tag and digest.
	Name     string         `json:"name"`
	Everyone bool           `json:"everyone,omitempty"`
	Secrets  []secretAccess `json:"secrets,omitempty"` // the oldest first
}

type secretAccess struct {
	Secret
	Hash string `json:"hash"`
}

func newRecord(id string) *record {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	return &record{Version: recordVersion, Image: bareID(id), Salt: hex.EncodeToString(salt)}
}

func (r *record) hash(c Credential) string {
	h := sha256.New()
	_, _ = h.Write([]byte(r.Salt))
	_, _ = h.Write(c.Sum[:])
	return hex.EncodeToString(h.Sum(nil))
}

// find returns the access by a name, nil if there is none.
func (r *record) find(name string) *access {
	if i := slices.IndexFunc(r.Names, func(a access) bool { return a.Name == name }); i >= 0 {
		return &r.Names[i]
	}
	return nil
}

// grant adds the access that a pull with a credential proves, and reports whether it is
// new.
func (r *record) grant(name string, c Credential) (changed bool) {
	a := r.find(name)
	if a == nil {
		r.Names = append(r.Names, access{Name: name})
		r.Names = r.Names[max(0, len(r.Names)-maxNames):]
		a = &r.Names[len(r.Names)-1]
	}
	if a.Everyone {
		return false
	}
	if c.Secret == (Secret{}) {
		a.Everyone, a.Secrets = true, nil
		return true
	}
	added := secretAccess{c.Secret, r.hash(c)}
	if slices.Contains(a.Secrets, added) {
		return false
	}
	a.Secrets = slices.DeleteFunc(a.Secrets, func(s secretAccess) bool { return s.Secret == c.Secret })
	a.Secrets = append(a.Secrets, added)
	a.Secrets = a.Secrets[max(0, len(a.Secrets)-maxSecrets):]
	return true
}

// learns reports whether a match adds its Secret: namespaces that come and go must not
// write the record over and over.
func (r *record) learns(name string) bool {
	a := r.find(name)
	return a != nil && len(a.Secrets) < maxSecrets
}

// allows reports whether one of a pod's credentials gives access by a name, as at the
// kubelet: its login was accepted before, or its Secret, whose login may have changed
// since. It returns that credential, whose grant may be new. A Secret of a manifest has
// no UID, and only its login counts.
func (r *record) allows(name string, own []Credential) (Credential, bool) {
	a := r.find(name)
	if a == nil {
		return Credential{}, false
	}
	for _, c := range own {
		hash := r.hash(c)
		for _, s := range a.Secrets {
			if s.Hash == hash || s.UID != "" && s.Secret == c.Secret {
				return c, true
			}
		}
	}
	return Credential{}, false
}

// repository returns the full name of an image without tag and digest.
func repository(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return reference.TrimNamed(named).String()
}

// canonical returns the full name of an image as the runtime lists it: with its digest
// or else with its tag.
func canonical(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	if digested, ok := named.(reference.Digested); ok {
		return reference.TrimNamed(named).String() + "@" + digested.Digest().String()
	}
	return reference.TagNameOnly(named).String()
}

// bareID returns an image ID without the hash algorithm, which some runtimes omit.
func bareID(id string) string {
	if bare, ok := cutID(id); ok {
		return bare
	}
	return id
}

// cutID returns the hash of an image ID; false for any other reference of an image.
func cutID(id string) (string, bool) {
	const prefix = "sha256:"
	bare := id
	if len(id) > len(prefix) && id[:len(prefix)] == prefix {
		bare = id[len(prefix):]
	}
	if len(bare) != 2*sha256.Size {
		return "", false
	}
	_, err := hex.DecodeString(bare)
	return bare, err == nil
}

// fileKey returns the key of the file about an image ID or, for intents, about a name.
func fileKey(of string) string {
	if bare, ok := cutID(of); ok {
		return bare
	}
	sum := sha256.Sum256([]byte(cmp.Or(of, "?")))
	return hex.EncodeToString(sum[:])
}

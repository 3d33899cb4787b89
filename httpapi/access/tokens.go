package access

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// minToken is the least length of a token in bytes: fewer can be guessed.
	minToken = 16
	// maxTokenFile in bytes bounds the file.
	maxTokenFile = 1 << 20
)

// TokenFile is a file of bearer tokens, one a line:
//
//	TOKEN,USER,ROLE
//
// ROLE is read, exec or admin. Instead of the token the line may have its
// SHA-256 sum, as sha256:HEX. Empty lines and those that begin with # are
// passed over. Only the owner of the file may have permissions on it.
//
// The file is read again when it has changed. One that has become faulty lets
// nobody in until it is mended: who took a line out of it must not find it in
// force for a slip in another one.
type TokenFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	state   fileState
	entries []tokenEntry
	err     error
}

// login is one line.
type tokenEntry struct {
	sum  [sha256.Size]byte
	user string
	role Role
}

// fileState tells one state of a file from another.
type fileState struct {
	changed time.Time
	size    int64
	mode    fs.FileMode
	inode   uint64
}

// OpenTokenFile reads the file; a fault in it is an error here.
func OpenTokenFile(path string, log *slog.Logger) (*TokenFile, error) {
	f := &TokenFile{path: path, log: log}
	f.reload()
	if f.err != nil {
		return nil, f.err
	}
	return f, nil
}

// Caller is whose token it is.
func (f *TokenFile) Caller(token string) (Caller, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reload()
	if f.err != nil {
		return Caller{}, fmt.Errorf("no token can be judged: the file of tokens is faulty; podstead's log has more")
	}
	sum := sha256.Sum256([]byte(token))
	var found *tokenEntry
	// All are compared, each as long as the others, so that the time tells
	// nothing.
	for i := range f.entries {
		if subtle.ConstantTimeCompare(sum[:], f.entries[i].sum[:]) == 1 {
			found = &f.entries[i]
		}
	}
	if found == nil {
		return Caller{}, fmt.Errorf("the token is not known")
	}
	return Caller{User: found.user, Classes: found.role.Classes()}, nil
}

// reload reads the file if it has changed, and tells once what is wrong with it.
func (f *TokenFile) reload() {
	fi, err := os.Stat(f.path)
	var now fileState
	if err == nil {
		now = fileStateOf(fi)
	}
	if f.state != (fileState{}) && now == f.state {
		return
	}
	first := f.state == (fileState{})
	before := f.err
	f.state = now
	if err == nil {
		err = checkMode(f.path, fi)
	}
	if err == nil {
		f.entries, err = readTokens(f.path)
	}
	if err != nil {
		f.entries, f.err = nil, fmt.Errorf("--token-auth-file: %w", err)
		if !first && (before == nil || before.Error() != f.err.Error()) {
			f.log.Error("nobody can log in with a token", "error", f.err)
		}
		return
	}
	f.err = nil
	if before != nil {
		f.log.Info("the file of tokens is in order again", "file", f.path)
	}
}

// checkMode judges who else may read or write the file.
func checkMode(path string, fi fs.FileInfo) error {
	switch {
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s is no plain file", path)
	case fi.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s has the mode %o; others than its owner must have no permission on it: chmod 600 it", path, fi.Mode().Perm())
	case fi.Size() > maxTokenFile:
		return fmt.Errorf("%s has %d bytes, more than the %d that such a file may have", path, fi.Size(), maxTokenFile)
	}
	return nil
}

func readTokens(path string) ([]tokenEntry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []tokenEntry
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxTokenFile)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// A fault never repeats the line: there is a secret in it.
		one, err := parseTokenEntry(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		for _, other := range all {
			if other.sum == one.sum {
				return nil, fmt.Errorf("%s:%d: the token is that of %q already", path, n, other.user)
			}
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

func parseTokenEntry(line string) (tokenEntry, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 3 {
		return tokenEntry{}, fmt.Errorf("has %d fields; must be TOKEN,USER,ROLE", len(fields))
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	if fields[1] == "" {
		return tokenEntry{}, fmt.Errorf("has no user; must be TOKEN,USER,ROLE")
	}
	role, err := ParseRole(fields[2])
	if err != nil {
		return tokenEntry{}, err
	}
	one := tokenEntry{user: fields[1], role: role}
	text, hashed := strings.CutPrefix(fields[0], "sha256:")
	switch {
	case hashed:
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != sha256.Size {
			return tokenEntry{}, fmt.Errorf("the sum is not one of SHA-256; must be sha256: and 64 hexadecimal digits")
		}
		copy(one.sum[:], sum)
	case len(text) < minToken || strings.ContainsAny(text, " \t\""):
		return tokenEntry{}, fmt.Errorf("the token must have %d characters at least, without quotes and spaces; openssl rand -hex 32 makes one", minToken)
	default:
		one.sum = sha256.Sum256([]byte(text))
	}
	return one, nil
}

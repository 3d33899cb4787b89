package access

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// minToken is the minimum length of a token in bytes. Shorter ones can be guessed.
	minToken = 16
	// maxTokenFile is the maximum size of the file in bytes.
	maxTokenFile = 1 << 20
)

// TokenFile is a file of bearer tokens, one per line:
//
//	TOKEN,USER,ROLE
//
// ROLE is read, exec, edit or admin. The token may be replaced by its SHA-256 sum, as sha256:HEX.
// Empty lines and lines that begin with # are ignored. Only the owner of the file may have
// permissions on it.
//
// The file is reloaded when it has changed. While it is invalid, all tokens are rejected:
// a token that was removed must not stay valid because of a mistake in another line.
type TokenFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	state   fileState
	entries []tokenEntry
	err     error
}

// tokenEntry is one line of the file.
type tokenEntry struct {
	sum  [sha256.Size]byte
	user string
	role Role
}

// fileState identifies a version of a file.
type fileState struct {
	changed time.Time
	size    int64
	mode    fs.FileMode
	inode   uint64
}

// OpenTokenFile loads the file. An invalid file is an error.
func OpenTokenFile(path string, log *slog.Logger) (*TokenFile, error) {
	f := &TokenFile{path: path, log: log}
	f.reload()
	if f.err != nil {
		return nil, f.err
	}
	return f, nil
}

// errTokenFileInvalid does not repeat the fault, which is for the owner of the file only.
var errTokenFileInvalid = errors.New("tokens cannot be verified: the token file is invalid; see the log of podstead")

// Caller returns the owner of a token. The error is errTokenFileInvalid while no token can
// be verified.
func (f *TokenFile) Caller(token string) (Caller, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reload()
	if f.err != nil {
		return Caller{}, errTokenFileInvalid
	}
	sum := sha256.Sum256([]byte(token))
	var found *tokenEntry
	// Every entry is compared in constant time, so that the duration reveals nothing.
	for i := range f.entries {
		if subtle.ConstantTimeCompare(sum[:], f.entries[i].sum[:]) == 1 {
			found = &f.entries[i]
		}
	}
	if found == nil {
		return Caller{}, fmt.Errorf("the token is unknown")
	}
	return Caller{User: found.user, Classes: found.role.Classes(), source: fromTokenFile}, nil
}

// reload reads the file if it has changed, and logs each error once.
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
	previous := f.err
	f.state = now
	if err == nil {
		err = checkMode(f.path, fi)
	}
	if err == nil {
		f.entries, err = readTokens(f.path)
	}
	if err != nil {
		f.entries, f.err = nil, fmt.Errorf("--token-auth-file: %w", err)
		if !first && (previous == nil || previous.Error() != f.err.Error()) {
			f.log.Error("Token file is invalid, rejecting all tokens", "err", f.err)
		}
		return
	}
	f.err = nil
	if previous != nil {
		f.log.Info("Token file reloaded", "file", f.path)
	}
}

// checkMode checks that only the owner may read or write the file.
func checkMode(path string, fi fs.FileInfo) error {
	switch {
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case fi.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s has mode %o, but only its owner may have permissions; run chmod 600 %s", path, fi.Mode().Perm(),
			path)
	case fi.Size() > maxTokenFile:
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", path, fi.Size(), maxTokenFile)
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
		// The error does not repeat the line, which contains a secret.
		entry, err := parseTokenEntry(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		for _, other := range all {
			if other.sum == entry.sum {
				return nil, fmt.Errorf("%s:%d: duplicate token; it already belongs to %q", path, n, other.user)
			}
		}
		all = append(all, entry)
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
		return tokenEntry{}, fmt.Errorf("the user is empty; must be TOKEN,USER,ROLE")
	}
	role, err := ParseRole(fields[2])
	if err != nil {
		return tokenEntry{}, err
	}
	entry := tokenEntry{user: fields[1], role: role}
	text, hashed := strings.CutPrefix(fields[0], "sha256:")
	switch {
	case hashed:
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != sha256.Size {
			return tokenEntry{}, fmt.Errorf("invalid SHA-256 sum; must be sha256: and 64 hexadecimal digits")
		}
		copy(entry.sum[:], sum)
	case len(text) < minToken || strings.ContainsAny(text, " \t\""):
		return tokenEntry{}, fmt.Errorf("the token must have at least %d characters, without quotes and spaces; create one "+
			"with openssl rand -hex 32", minToken)
	default:
		entry.sum = sha256.Sum256([]byte(text))
	}
	return entry, nil
}

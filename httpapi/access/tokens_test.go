package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	readToken  = "0123456789abcdef-read"
	adminToken = "0123456789abcdef-admin"
)

func sumOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// tokenFile is a token file that put replaces as editors do.
type tokenFile struct {
	*testing.T
	path string
	log  bytes.Buffer
	file *TokenFile
}

func newTokenFile(t *testing.T, text string) *tokenFile {
	t.Helper()
	f := &tokenFile{T: t, path: filepath.Join(t.TempDir(), "tokens")}
	f.write(text, 0o600)
	file, err := OpenTokenFile(f.path, slog.New(slog.NewTextHandler(&f.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	f.file = file
	return f
}

func (f *tokenFile) write(text string, mode os.FileMode) {
	f.Helper()
	if err := os.WriteFile(f.path+".new", []byte(text), mode); err != nil {
		f.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		f.Fatal(err)
	}
}

func (f *tokenFile) want(token, user string, classes Class) {
	f.Helper()
	c, err := f.file.Caller(token)
	if (err == nil) != (user != "") || c.User != user || c.Classes != classes {
		f.Errorf("%s: %+v, %v; want %q, %v", token, c, err, user, classes)
	}
	if err != nil && token != "" && strings.Contains(err.Error(), token) {
		f.Errorf("the error repeats the token: %v", err)
	}
}

func TestTokensGrantRoles(t *testing.T) {
	f := newTokenFile(t, "# users\n\n"+readToken+", ann, read\n"+sumOf(adminToken)+",bob,admin\n")
	f.want(readToken, "ann", RoleRead.Classes())
	f.want(adminToken, "bob", All)
	f.want(sumOf(adminToken), "", 0) // the sum is not a token
	f.want(readToken+"x", "", 0)
	f.want(readToken[:len(readToken)-1], "", 0)
	f.want("", "", 0)
}

func TestChangedTokenFileIsReloaded(t *testing.T) {
	f := newTokenFile(t, readToken+",ann,read\n"+adminToken+",bob,admin\n")
	f.write(readToken+",ann,exec\n", 0o600)
	f.want(readToken, "ann", RoleExec.Classes())
	f.want(adminToken, "", 0)
}

func TestInvalidTokenFileRejectsAllTokens(t *testing.T) {
	f := newTokenFile(t, readToken+",ann,read\n")
	for name, damage := range map[string]func(){
		"invalid line":       func() { f.write(readToken+",ann,read\nshort,eve,admin\n", 0o600) },
		"readable by others": func() { f.write(readToken+",ann,read\n", 0o644) },
		"removed": func() {
			if err := os.Remove(f.path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		f.log.Reset()
		damage()
		f.want(readToken, "", 0)
		f.want(readToken, "", 0)
		if n := strings.Count(f.log.String(), "Token file is invalid"); n != 1 ||
			strings.Contains(f.log.String(), readToken) {
			t.Errorf("%s is logged %d times: %s", name, n, f.log.String())
		}
		f.write(readToken+",ann,read\n", 0o600)
		f.want(readToken, "ann", RoleRead.Classes())
	}
}

func TestTokenFileErrorsDoNotContainSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"secretsecretsecret,ann\n":      ":1: has 2 fields; must be TOKEN,USER,ROLE",
		"\nsecretsecretsecret,,read\n":  ":2: the user is empty",
		"secretsecretsecret,ann,root\n": `unknown role "root"; must be read, exec, edit or admin`,
		"secret,ann,read\n":             "must have at least 16 characters",
		"sha256:secret,ann,read\n":      "64 hexadecimal digits",
		"secretsecretsecret,ann,read\n" + sumOf("secretsecretsecret") +
			",b,read": `:2: duplicate token; it already belongs to "ann"`,
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenTokenFile(path, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "--token-auth-file: "+path) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokenFile(open, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestTokenIsReadOnlyFromTheHeader(t *testing.T) {
	f := newTokenFile(t, readToken+",ann,read\n")
	a := &Authenticator{Tokens: f.file}
	for header, ok := range map[string]bool{
		"Bearer " + readToken: true, "bearer  " + readToken: true,
		"": false, "Bearer": false, "Bearer ": false, readToken: false, "Basic " + readToken: false,
		"Bearer x" + readToken: false,
	} {
		r := httptest.NewRequest("GET", "/pods?access_token="+readToken, nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		if c, err := a.Caller(r, nil); (err == nil) != ok {
			t.Errorf("Authorization %q: %+v, %v", header, c, err)
		}
	}
	r := httptest.NewRequest("GET", "/pods", nil)
	r.Header.Set("Authorization", "Bearer "+readToken)
	if _, err := (&Authenticator{}).Caller(r, nil); err == nil || !strings.Contains(err.Error(), "--token-auth-file") {
		t.Errorf("a token without a token file: %v", err)
	}
}

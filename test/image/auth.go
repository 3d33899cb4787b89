package image

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// Login requires a credential for a registry. The zero value rejects all requests.
type Login struct {
	User, Password string
	// IdentityToken is also accepted by the authorization server; empty for none.
	IdentityToken string
	// Bearer requires an access token of the authorization server, which is part of the
	// registry. Otherwise user and password are sent with each request.
	Bearer bool

	mu      sync.Mutex
	tokens  map[string]bool
	granted int
}

// Granted returns the number of access tokens that were granted.
func (l *Login) Granted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

// Expire makes all access tokens invalid.
func (l *Login) Expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens = nil
}

// Require returns a handler that lets requests with the credential through to next.
func (l *Login) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case l.Bearer && q.URL.Path == "/token":
			l.grant(w, q)
		case l.allows(q):
			next.ServeHTTP(w, q)
		default:
			challenge := `Basic realm="test"`
			if l.Bearer {
				challenge = fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, q.Host)
			}
			w.Header().Set("WWW-Authenticate", challenge)
			refuse(w)
		}
	})
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
}

func (l *Login) isBasic(q *http.Request) bool {
	user, password, ok := q.BasicAuth()
	return ok && user == l.User && password == l.Password
}

func (l *Login) allows(q *http.Request) bool {
	if !l.Bearer {
		return l.isBasic(q)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tokens[q.Header.Get("Authorization")]
}

// grant is the authorization server: GET with a password, POST with an identity token.
func (l *Login) grant(w http.ResponseWriter, q *http.Request) {
	known := q.Method == http.MethodPost && l.IdentityToken != "" && q.FormValue("refresh_token") == l.IdentityToken
	if !known && !l.isBasic(q) {
		refuse(w)
		return
	}
	token := rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil {
		l.tokens = map[string]bool{}
	}
	l.tokens["Bearer "+token] = true
	l.granted++
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "access_token": token, "expires_in": 300})
}

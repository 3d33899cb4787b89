package httpapi

import "net/http"

func imageArchives(m ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, m.ImageArchives()) }
}

import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  base: '/console/',
  plugins: [react()],
  // The service replaces the placeholder with a new nonce in each response.
  html: { cspNonce: '__NONCE__' },
  // The Content-Security-Policy allows no `data:` scripts or fonts.
  build: { assetsInlineLimit: 0, license: { fileName: 'licences.md' } },
})

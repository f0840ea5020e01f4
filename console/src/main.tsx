import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot, type Root } from 'react-dom/client'
import { ApiContext, createApi } from './api/client.ts'
import { createQueries } from './api/queries.ts'
import { router } from './router.tsx'
import { openSession, type Session, SessionContext } from './session/session.ts'
import './styles.css'
import { Button } from './ui/button.tsx'
import { messageOf } from './ui/states.tsx'
import { applyTheme } from './ui/theme.ts'

// After a failed import, the router would otherwise reload the document, and the browser would show its own error page
// if the service is down.
addEventListener('vite:preloadError', (event) => event.preventDefault())
applyTheme()
const element = document.getElementById('root')
if (element === null) throw new Error('The page has no element with the id root')
await start(createRoot(element))

async function start(root: Root): Promise<void> {
  try {
    const opened = await openSession()
    // Without a session, the browser is already on its way to the login page.
    if (opened !== null) root.render(<App session={opened} />)
  } catch (error) {
    root.render(<LoginFailed error={error} />)
  }
}

function App({ session }: { session: Session }) {
  return (
    <StrictMode>
      <SessionContext value={session}>
        <ApiContext value={createApi(session)}>
          <QueryClientProvider client={createQueries()}>
            <RouterProvider router={router} />
          </QueryClientProvider>
        </ApiContext>
      </SessionContext>
    </StrictMode>
  )
}

function LoginFailed({ error }: { error: unknown }) {
  return (
    <main className="state" role="alert">
      <h1>Sign-in failed</h1>
      <p>{messageOf(error)}</p>
      <Button look="primary" onPress={() => location.assign('/console/')}>
        Try again
      </Button>
    </main>
  )
}

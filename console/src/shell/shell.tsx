import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { Dialog } from 'react-aria-components/Dialog'
import { Modal, ModalOverlay } from 'react-aria-components/Modal'
import icon from '../icon.svg'
import { navigation, visible } from '../navigation.ts'
import { useIsExpired, useSession } from '../session/session.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { FocusedPath, Page } from '../ui/page.tsx'
import { messageOf } from '../ui/states.tsx'
import { chooseTheme, useTheme } from '../ui/theme.ts'
import { Toasts, toast } from '../ui/toast.tsx'
import { Palette } from './palette.tsx'

const paletteKey = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘K' : 'Ctrl K'

/** The frame of every page: navigation, command palette, and notices about the connection and the session. */
export function Shell() {
  const [isMenuOpen, setMenuOpen] = useState(false)
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const focusedPath = useRef<string | null>(null)
  usePaletteKey(() => setPaletteOpen(true))
  const search = (
    <Button isCompact onPress={() => setPaletteOpen(true)}>
      Search <kbd className="quiet small">{paletteKey}</kbd>
    </Button>
  )
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <Notices />
      <div className="frame">
        <div className="top">
          <IconButton label="Menu" onPress={() => setMenuOpen(true)}>
            ☰
          </IconButton>
          <Brand />
          {search}
        </div>
        <Side search={search} />
        <main className="main" id="main" tabIndex={-1}>
          <FocusedPath value={focusedPath}>
            <Allowed />
          </FocusedPath>
        </main>
      </div>
      <ModalOverlay className="overlay drawer" isOpen={isMenuOpen} onOpenChange={setMenuOpen} isDismissable>
        <Modal className="modal">
          <Dialog aria-label="Menu">
            <Side onNavigate={() => setMenuOpen(false)} />
          </Dialog>
        </Modal>
      </ModalOverlay>
      <Palette isOpen={isPaletteOpen} onClose={() => setPaletteOpen(false)} />
      <Toasts />
    </>
  )
}

function Brand() {
  return (
    <Link to="/" className="brand">
      <img src={icon} alt="" />
      Plinth
    </Link>
  )
}

function Side({ search, onNavigate }: { search?: React.ReactNode; onNavigate?: () => void }) {
  const { person, may, logOut } = useSession()
  const theme = useTheme()
  return (
    <div className="side">
      <Brand />
      {search}
      <nav aria-label="Pages">
        {visible(may).map(({ title, entries }) => (
          <div key={title}>
            {title !== null && <h2>{title}</h2>}
            <ul>
              {entries.map((entry) => (
                <li key={entry.to}>
                  <Link to={entry.to} activeOptions={{ exact: entry.to === '/' }} onClick={onNavigate}>
                    {entry.title}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
      <div className="person stack tight">
        <span className="small">{person.name}</span>
        <div className="row">
          <Button isCompact onPress={() => chooseTheme(theme === 'dark' ? 'light' : 'dark')}>
            {theme === 'dark' ? 'Light theme' : 'Dark theme'}
          </Button>
          <Button isCompact onPress={logOut}>
            Sign out
          </Button>
        </div>
      </div>
    </div>
  )
}

/** Shows the page if the user has the required scopes. */
function Allowed() {
  const { may } = useSession()
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const entry = navigation
    .flatMap(({ entries }) => entries)
    .filter(({ to }) => path === to || path.startsWith(`${to}/`))
    .toSorted((one, other) => other.to.length - one.to.length)[0]
  const missing = entry?.scopes.filter((scope) => !may(scope)) ?? []
  if (missing.length === 0) return <Outlet />
  return (
    <Page title="You may not see this page">
      <p>It needs the scope {missing.join(' and ')}. An administrator can change your role.</p>
    </Page>
  )
}

function Notices() {
  const { logIn } = useSession()
  const isExpired = useIsExpired()
  const isOnline = useIsOnline()
  if (isExpired)
    return (
      <div className="banner" role="alert">
        Your session has ended. What you see may be out of date.
        <Button isCompact onPress={() => logIn().catch((error: unknown) => toast(messageOf(error)))}>
          Sign in again
        </Button>
      </div>
    )
  if (isOnline) return null
  return (
    <div className="banner" role="status">
      You are offline. The page continues when the connection is back.
    </div>
  )
}

function useIsOnline(): boolean {
  const [isOnline, setOnline] = useState(navigator.onLine)
  useEffect(() => {
    const update = () => setOnline(navigator.onLine)
    addEventListener('online', update)
    addEventListener('offline', update)
    return () => {
      removeEventListener('online', update)
      removeEventListener('offline', update)
    }
  }, [])
  return isOnline
}

/** Calls `open` on Ctrl+K or ⌘K. */
function usePaletteKey(open: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      open()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  })
}

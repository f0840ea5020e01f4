import { useRouterState } from '@tanstack/react-router'
import { createContext, type ReactNode, type RefObject, useContext, useEffect, useRef } from 'react'

interface PageProps {
  title: string
  /** One sentence about the page. */
  about?: ReactNode
  /** Buttons to the right of the title. */
  actions?: ReactNode
  children: ReactNode
}

/** The path of the page whose title was focused last; null before the first page. */
export const FocusedPath = createContext<RefObject<string | null> | null>(null)

/** Focuses the title after a navigation, so that screen readers announce it and Tab continues from there. */
function useFocusedTitle(): RefObject<HTMLHeadingElement | null> {
  const title = useRef<HTMLHeadingElement>(null)
  const focused = useContext(FocusedPath)
  const path = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname })
  useEffect(() => {
    if (focused === null || path === undefined || focused.current === path) return
    if (focused.current !== null) title.current?.focus({ preventScroll: true })
    focused.current = path
  }, [focused, path])
  return title
}

/** A page with its title, which is also the document title. */
export function Page({ title, about, actions, children }: PageProps) {
  const heading = useFocusedTitle()
  useEffect(() => {
    document.title = `${title} · Plinth`
  }, [title])
  return (
    <div className="page">
      <header>
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {about !== undefined && <p>{about}</p>}
        </div>
        {actions !== undefined && <div className="row">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

/** A part of a page with its own heading. */
export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="stack tight">
      <div className="row between">
        <h2>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  )
}

/** A list of names and values. */
export function Facts({ of }: { of: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className="facts">
      {of.map(([name, value]) => (
        <FactRow key={name} name={name} value={value} />
      ))}
    </dl>
  )
}

function FactRow({ name, value }: { name: string; value: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value ?? '–'}</dd>
    </>
  )
}

export type Tone = 'good' | 'warn' | 'wrong' | 'info'

/** Returns the badge color (`Tone`) for an HTTP status. */
export const toneOf = (status: number): Tone =>
  status >= 500 ? 'wrong' : status >= 400 ? 'warn' : status >= 300 ? 'info' : 'good'

/** A short status, such as "active". The text must not rely on the color for its meaning. */
export function Badge({ tone, children }: { tone?: Tone; children: ReactNode }) {
  return <span className={tone ? `badge ${tone}` : 'badge'}>{children}</span>
}

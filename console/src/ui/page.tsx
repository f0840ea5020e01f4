import { type ReactNode, useEffect } from 'react'

export interface PageProps {
  title: string
  /** One sentence about the page. */
  about?: ReactNode
  /** Buttons to the right of the title. */
  actions?: ReactNode
  children: ReactNode
}

/** A page: its title, also of the document, then its content. */
export function Page({ title, about, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Plinth`
  }, [title])
  return (
    <div className="page">
      <header>
        <div>
          <h1>{title}</h1>
          {about !== undefined && <p>{about}</p>}
        </div>
        {actions !== undefined && <div className="row">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

/** A titled part of a page. */
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

/** Names with their values. */
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

/** A short state, such as "active". The text says what the color shows. */
export function Badge({ tone, children }: { tone?: Tone; children: ReactNode }) {
  return <span className={tone ? `badge ${tone}` : 'badge'}>{children}</span>
}

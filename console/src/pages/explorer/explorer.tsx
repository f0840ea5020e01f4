import { Link, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { useDocument } from '../../api/document.ts'
import { useSession } from '../../session/session.ts'
import { TextField } from '../../ui/fields.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { OperationForm } from './operation.tsx'
import { type Operation, readOperations } from './operations.ts'

/** Sends requests to any operation of the API, as the logged-in user. */
export function Explorer() {
  const { may } = useSession()
  const query = useDocument('operations', readOperations)
  return (
    <Page
      title="API explorer"
      about="Every operation that you may call. Requests are real, and are sent with your access token."
    >
      <Loaded query={query}>
        {(operations) => (
          <Both operations={operations.filter(({ access }) => access.some((scopes) => may(...scopes)))} />
        )}
      </Loaded>
    </Page>
  )
}

function Both({ operations }: { operations: readonly Operation[] }) {
  const { operation: id } = useSearch({ from: '/explorer' })
  const chosen = operations.find((operation) => operation.id === id)
  return (
    <div className="explorer">
      <List operations={operations} chosen={chosen} />
      {chosen === undefined ? (
        <Empty
          title={id === undefined ? 'Choose an operation' : 'There is no such operation, or you may not call it'}
        />
      ) : (
        <OperationForm key={chosen.id} operation={chosen} />
      )}
    </div>
  )
}

function List({ operations, chosen }: { operations: readonly Operation[]; chosen: Operation | undefined }) {
  const [text, setText] = useState('')
  const words = text.toLowerCase().split(/\s+/)
  const found = operations.filter(({ method, path, summary, id }) => {
    const all = `${method} ${path} ${summary} ${id}`.toLowerCase()
    return words.every((word) => all.includes(word))
  })
  const groups = Map.groupBy(found, ({ tag }) => tag)
  return (
    <nav className="card stack operations" aria-label="Operations">
      <TextField label="Find an operation" value={text} onChange={setText} placeholder="webhook, /products, POST" />
      <div className="stack tight scroll">
        {found.length === 0 && <p className="quiet">Nothing found</p>}
        {[...groups].map(([tag, some]) => (
          <details key={tag} open={text !== '' || some.some(({ id }) => id === chosen?.id)}>
            <summary>
              {tag} <span className="quiet small">{some.length}</span>
            </summary>
            <ul>
              {some.map(({ id, method, path, summary }) => (
                <li key={id}>
                  <Link to="/explorer" search={{ operation: id }} aria-current={id === chosen?.id ? 'page' : undefined}>
                    <span>{summary}</span>
                    <code className="quiet">
                      {method} {path}
                    </code>
                  </Link>
                </li>
              ))}
            </ul>
          </details>
        ))}
      </div>
    </nav>
  )
}

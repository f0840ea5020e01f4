import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'

/** The text of each field, by label. */
export type Texts = Readonly<Record<string, string>>

export interface ConflictProps {
  /** The field texts when the form was opened, as the user has edited them, and in the current row. */
  before: Texts
  mine: Texts
  theirs: Texts
  onTakeTheirs: () => void
  onOverwrite: () => void
  onEdit: () => void
  onClose: () => void
}

/** Shows the user's changes next to those that someone else has made in the meantime, and lets the user choose. */
export function Conflict({ before, mine, theirs, ...choices }: ConflictProps) {
  const labels = Object.keys({ ...before, ...mine, ...theirs })
  const differing = labels.filter((label) => mine[label] !== before[label] || theirs[label] !== before[label])
  return (
    <Dialog title="Someone else has changed this" isOpen isWide onClose={choices.onClose}>
      <p>The service kept their changes and refused yours, because you had not seen theirs.</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
      <section className="table-box" aria-label="Differences" tabIndex={0}>
        <table className="table cards">
          <thead>
            <tr>
              {['Field', 'Before', 'Yours', 'Theirs'].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {differing.map((label) => (
              <tr key={label}>
                <th scope="row" data-label="Field">
                  {label}
                </th>
                <Side title="Before" text={before[label]} />
                <Side title="Yours" text={mine[label]} isChanged={mine[label] !== before[label]} />
                <Side title="Theirs" text={theirs[label]} isChanged={theirs[label] !== before[label]} />
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <div className="row end">
        <Button onPress={choices.onTakeTheirs}>Take theirs</Button>
        <Button onPress={choices.onEdit}>Edit again</Button>
        <Button look="danger" onPress={choices.onOverwrite}>
          Overwrite with yours
        </Button>
      </div>
    </Dialog>
  )
}

function Side({ title, text = '', isChanged = false }: { title: string; text?: string; isChanged?: boolean }) {
  const shown = text === '' ? '–' : text
  return <td data-label={title}>{isChanged ? <mark>{shown}</mark> : <span className="quiet">{shown}</span>}</td>
}

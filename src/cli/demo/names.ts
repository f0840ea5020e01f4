/** Given names from several languages, combined with family names at random. */
export const givenNames: readonly string[] = [
  ...['Amelia', 'Noah', 'Zoë', 'José', 'Ingrid', 'Mateo', 'Priya', 'Kenji', 'Fatima', 'Liam', 'Chloé', 'Omar', 'Sofía'],
  ...['Anika', 'Tomás', 'Yuki', 'Grace', 'Jürgen', 'Leila', 'Samuel', 'Nadia', 'Viktor', 'Esther', 'Marcus', 'Hana'],
  ...['Declan', 'Ayesha', 'Luca', 'Renée', 'Kwame', 'Elena', 'Oscar', 'Mina', 'Andrei', 'Beatriz', 'Jonas', 'Thandi'],
  ...[
    'Rafael',
    'Signe',
    'Hugo',
    'Isla',
    'Dmitri',
    'Carmen',
    'Felix',
    'Adaeze',
    'Niamh',
    'Pavel',
    'Lucía',
    'Theo',
    'Maren',
  ],
]

export const familyNames: readonly string[] = [
  ...[
    'Okafor',
    'Lindqvist',
    'Fernández',
    'Novák',
    'Tanaka',
    'Hughes',
    'Moreau',
    'Rossi',
    'Patel',
    'Schneider',
    'Kowalska',
  ],
  ...[
    'Mensah',
    'Silva',
    'Haddad',
    'Murphy',
    'Andersen',
    'Castillo',
    'Petrov',
    'Nguyen',
    'Campbell',
    'Dvořák',
    'Yamamoto',
  ],
  ...['Brandt', 'Costa', 'Rahman', 'Sinclair', 'Virtanen', 'Dubois', 'Mbeki', 'Larsson', 'Ortega', 'Kaplan', 'Fraser'],
  ...['Szabó', 'Iyer', 'Bianchi', 'Hoffmann', 'Delgado', 'Nakamura', 'Osei', 'Weaver', 'Popescu', 'Whitfield', 'Núñez'],
  ...['Achterberg', 'Clarke', 'Jansen', 'El-Amin', 'Vargas', "O'Brien", 'Holloway', 'Marchetti', 'Eriksen', 'Bello'],
]

/** Towns, each with its dialing code and the start of a number range that the regulator reserves for fiction. */
export const towns: readonly { town: string; phone: string }[] = [
  { town: 'London', phone: '+44 20 7946 0' },
  { town: 'Edinburgh', phone: '+44 131 496 0' },
  { town: 'Cardiff', phone: '+44 29 2018 0' },
  { town: 'New York, NY', phone: '+1 (212) 555-0' },
  { town: 'Chicago, IL', phone: '+1 (312) 555-0' },
  { town: 'Seattle, WA', phone: '+1 (206) 555-0' },
]

export const streets: readonly string[] = [
  ...[
    'Rosewood Lane',
    'Station Road',
    'Mill Street',
    'Harbour Terrace',
    'Orchard Close',
    'Kingfisher Way',
    'High Street',
  ],
  ...['Chapel Hill', 'Elm Grove', 'Canal Walk', 'Granary Court', 'Bridge Street', 'Meadow Rise', 'Lantern Row'],
]

/** Example domains (RFC 2606): mail to them never arrives. */
export const domains: readonly string[] = ['example.com', 'example.org', 'example.net', 'mail.example.com']
